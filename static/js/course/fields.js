// The fields of a course (portal.models.course.course.Course), as the form shows them; the kinds are those
// of static/js/curate/fields.js.

import { listOf, resourceFields } from "../resource-fields.js";

const DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"].map((name, day) => [String(day), name]);
const CLOCK = { name: "begins", label: "Begins", type: "time" };
const MINUTES = { name: "minutes", label: "Minutes", number: true, usual: 90 };

// `editing`: the choices (portal.handlers.pages.courses).
export function courseGroups(editing) {
  const environments = editing.environments.map(({ name, title }) => [name, title]);
  return [
    {
      legend: "Course",
      fields: [
        { name: "title", label: "Title", help: "Shown to students." },
        { name: "name", label: "Name", help: "Lowercase letters, digits and dashes, e.g. dl-101. Cannot be changed later." },
        { name: "environment", label: "Environment", kind: "choice", choices: [["", "Choose an environment"], ...environments], help: "Containers that include the notebook server." },
        { name: "roster_group", label: "Directory group", help: "Its members are students. Others can be added by name." },
        { name: "begins", label: "First day", type: "date" },
        { name: "ends", label: "Last day", type: "date", help: "Sessions are stopped after this day. Files stay." },
      ],
    },
    {
      legend: "Meetings",
      fields: [
        { name: "weekly", label: "Weekly meetings", kind: "rows", noun: "weekly time", columns: [{ name: "day", label: "Day", choices: DAYS, number: true }, CLOCK, MINUTES] },
        { name: "timezone", label: "Time zone", list: "course-zones" },
      ],
    },
    {
      legend: "Additional meetings and holidays",
      folded: true,
      fields: [
        { name: "single", label: "Additional meetings", kind: "rows", noun: "single date", columns: [{ name: "date", label: "Day", type: "date" }, CLOCK, MINUTES] },
        { name: "without", label: "Holidays", kind: "dates", noun: "holiday", columns: [{ name: "date", label: "Day", type: "date" }], help: "There are no weekly meetings on these days." },
      ],
    },
    {
      legend: "Course page",
      fields: [{ name: "description", label: "Description", kind: "area", help: "Markdown, shown to students." }],
    },
    {
      legend: "Environment version and shared data",
      folded: true,
      fields: [
        { name: "version", label: "Version", kind: "number", opens: false, help: "Pinned: it changes only when you change it. Empty: the newest at each save." },
        { name: "data", label: "Shared data", help: editing.data_roots.length ? `A folder below ${editing.data_roots.join(", ")}, read-only for students.` : "This site has no folders for shared course data." },
      ],
    },
    { legend: "Default resources", folded: true, fields: resourceFields(editing.fields, "default", { gpus: 1, time: "2:00:00" }) },
    {
      legend: "Maximum resources",
      folded: true,
      fields: [
        ...resourceFields(editing.fields, "largest", { gpus: 1, time: "4:00:00" }),
        { name: "job_kernels", label: "Kernels in jobs of their own", kind: "check", help: "A notebook in a session on CPUs can have a kernel with GPUs. A session and its kernels together can use up to the maximum number of GPUs.", usual: false },
        { name: "runs", label: "Runs", kind: "check", help: "Students can run a notebook as jobs, once for each set of parameters. Together, a student’s running points can use the GPUs that the session leaves free, or up to the maximum number of CPUs.", usual: false },
      ],
    },
    {
      legend: "Account and budget",
      folded: true,
      fields: [
        { name: "account", label: "Slurm account", help: "The account to which sessions are charged. Empty: each student’s own." },
        { name: "budget", label: "Budget in GPU-hours", kind: "decimal", help: "Empty: no limit. When the budget is used up, sessions with GPUs do not start." },
      ],
    },
    {
      legend: "Before each meeting",
      folded: true,
      fields: [
        { name: "prestart", label: "Start all sessions before the meeting", kind: "check", help: "Sessions that students do not open are stopped.", usual: false },
        { name: "reservation.nodes", label: "Reserved nodes", kind: "number", help: "0: no nodes are reserved.", usual: 0 },
        { name: "reservation.gpus", label: "Reserved GPUs", kind: "number", help: "Only if this Slurm can reserve GPUs by number. Otherwise, reserve nodes.", usual: 0 },
        { name: "reservation.partition", label: "Reservation partition", list: listOf("partition") },
      ],
    },
    {
      legend: "Handouts",
      folded: true,
      fields: [
        { name: "handouts.kind", label: "File source", kind: "choice", choices: [["none", "Uploads on the course page only"], ["git", "A git repository"], ["folder", "A folder"]], usual: "none" },
        { name: "handouts.source", label: "Address or path", by: "handouts.kind", of: ["git", "folder"], help: "The https://… address of a repository, or the path of a folder." },
        { name: "handouts.branch", label: "Branch", by: "handouts.kind", of: ["git"], help: "Empty: the repository’s default branch." },
      ],
    },
    {
      legend: "Collaboration",
      folded: true,
      fields: [
        {
          name: "help", label: "Help in a student’s session", kind: "choice", usual: "ask",
          choices: [["ask", "After the student agrees"], ["always", "Without asking; visible to the student"], ["off", "Never"]],
        },
        { name: "together", label: "Room with shared notebooks", kind: "check", usual: false },
        { name: "grades", label: "Assignments with nbgrader", kind: "check", usual: false },
      ],
    },
  ];
}
