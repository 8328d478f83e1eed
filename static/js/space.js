// Types of spaces: the key of a space's name in sessions and runs, and what it is called.
const SPACES = [
  { key: "course", title: "Course" },
  { key: "project", title: "Project" },
];

// The space of a session or run, as what it is and its name; null: it is its user's alone.
export function spaceOf(item) {
  const type = SPACES.find(({ key }) => item[key]);
  return type ? [type.title, item[type.key]] : null;
}
