// Who may see an environment: the members of what these keys of its definition name. None: everyone.

export const AUDIENCES = [
  { name: "groups", noun: "group", title: "Groups", help: "Separated by commas. No groups and no courses: everyone." },
  { name: "courses", noun: "course", title: "Courses", help: "Separated by commas." },
];

// "lab, dl101"
export const visibleTo = (environment) => AUDIENCES.flatMap(({ name }) => environment[name] ?? []).join(", ") || "everyone";
