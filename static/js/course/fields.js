// The fields of a course (portal.models.course.course.Course), as the form shows them; the kinds are those
// of static/js/curate/fields.js.

const DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"].map((name, day) => [String(day), name]);
const MEMORY = "E.g. 8G or 512M.";
const TIME = "Hours, minutes and seconds, e.g. 2:00:00.";
const CLOCK = { name: "begins", label: "Begins", type: "time" };
const MINUTES = { name: "minutes", label: "Minutes", number: true, usual: 90 };

const resources = (part) => [
  { name: `${part}.gpus`, label: "GPUs", kind: "number" },
  { name: `${part}.gpu_type`, label: "GPU type", list: "course-gpu-types", help: "Empty: any." },
  { name: `${part}.cpus`, label: "CPUs", kind: "number" },
  { name: `${part}.memory`, label: "Memory", help: MEMORY },
  { name: `${part}.time`, label: "Time", help: TIME },
  { name: `${part}.partition`, label: "Partition", list: "course-partitions", help: "Empty: the site’s own." },
];

// `editing`: what there is to choose from (portal.handlers.pages.courses).
export function courseGroups(editing) {
  const environments = editing.environments.map((one) => [one.name, one.title]);
  return [
    {
      legend: "What it is",
      fields: [
        { name: "title", label: "Title", help: "What students see." },
        { name: "name", label: "Name", help: "Small letters, digits and dashes, e.g. dl-101. It stays: folders and sessions have it." },
        { name: "description", label: "Description", kind: "area", help: "Markdown, shown to students." },
        { name: "roster_group", label: "Group of the directory", help: "Everyone in it is a student, and stays one as long. Others can be added by name." },
      ],
    },
    {
      legend: "What its sessions run in",
      fields: [
        { name: "environment", label: "Environment", kind: "choice", choices: [["", "Choose one"], ...environments], help: "Of the catalog: containers with the notebook server inside." },
        { name: "version", label: "Version", kind: "number", help: "Pinned: it changes when you change it. Empty: the newest, at each save." },
        { name: "data", label: "Shared data", help: editing.data_roots.length ? `A folder below ${editing.data_roots.join(", ")}; students read it.` : "This site has no folders for courses." },
      ],
    },
    { legend: "One student’s session", fields: resources("default") },
    { legend: "At most", folded: true, fields: resources("largest") },
    {
      legend: "The whole course",
      fields: [
        { name: "account", label: "Slurm account", help: "What sessions are charged to. Empty: each student’s own." },
        { name: "budget", label: "Budget in GPU-hours", kind: "decimal", help: "Empty: no limit. When it is used up, no session with GPUs starts." },
      ],
    },
    {
      legend: "When it is",
      fields: [
        { name: "begins", label: "First day", type: "date" },
        { name: "ends", label: "Last day", type: "date", help: "After it, sessions are stopped; work stays." },
        { name: "timezone", label: "Time zone", list: "course-zones" },
        { name: "weekly", label: "Every week", kind: "rows", one: "weekly time", columns: [{ name: "day", label: "Day", choices: DAYS, number: true }, CLOCK, MINUTES] },
        { name: "single", label: "On single days", kind: "rows", one: "single date", columns: [{ name: "date", label: "Day", type: "date" }, CLOCK, MINUTES] },
        { name: "without", label: "Without", kind: "dates", one: "holiday", columns: [{ name: "date", label: "Day", type: "date" }], help: "Weekly times are left out on these days." },
      ],
    },
    {
      legend: "Before each meeting",
      fields: [
        { name: "prestart", label: "Start everyone’s session ahead of the meeting", kind: "check", help: "Seats that nobody claims are released." },
        { name: "reservation.nodes", label: "Reserved nodes", kind: "number", help: "0: nothing is reserved." },
        { name: "reservation.gpus", label: "Reserved GPUs", kind: "number", help: "Where this Slurm can reserve GPUs by number; else reserve nodes." },
        { name: "reservation.partition", label: "Partition of the reservation", list: "course-partitions" },
      ],
    },
    {
      legend: "Handouts",
      fields: [
        { name: "handouts.kind", label: "Files come from", kind: "choice", choices: [["none", "This page alone"], ["git", "A git repository"], ["folder", "A folder"]] },
        { name: "handouts.source", label: "Address or path", by: "handouts.kind", of: ["git", "folder"], help: "https://… of a repository; or the path of a folder." },
        { name: "handouts.branch", label: "Branch", by: "handouts.kind", of: ["git"], help: "Empty: the repository’s own." },
      ],
    },
    {
      legend: "Together",
      fields: [
        {
          name: "help", label: "Help in a student’s session", kind: "choice",
          choices: [["ask", "After the student agrees"], ["always", "Without asking; the student sees it"], ["off", "Never"]],
        },
        { name: "together", label: "A room with shared notebooks", kind: "check" },
        { name: "grades", label: "Assignments with nbgrader", kind: "check" },
      ],
    },
  ];
}
