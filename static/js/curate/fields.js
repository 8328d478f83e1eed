// The fields of an environment (portal.models.catalog.environment.Environment), as the form shows them.
//
// kind: text (default), area (Markdown), choice, number, words (a list, separated by commas),
// rows (a list of objects) or pairs (an object of texts). `of`: the kinds of environment that have it.

const MEMORY = "E.g. 32G or 512M; for each node.";
const TIME = "Hours, minutes and seconds, e.g. 2:00:00, or days before them: 1-00:00:00.";

export const GROUPS = [
  {
    legend: "What it is",
    fields: [
      { name: "title", label: "Title", help: "What people see on the tile and the launch page." },
      { name: "name", label: "Name", help: "Small letters, digits, dots and dashes. It stays for ever: links and files have it." },
      { name: "description", label: "Description", kind: "area", help: "Markdown, shown on the environment’s page." },
      { name: "tags", label: "Tags", kind: "words", help: "Framework, version, language; separated by commas." },
      { name: "icon", label: "Icon", help: "A name of Font Awesome’s, e.g. fire or chart-line. Empty: by the tags." },
      { name: "order", label: "Order", kind: "number", help: "Smaller stands first. The usual is 100." },
    ],
  },
  {
    legend: "What lies behind it",
    fields: [
      { name: "kind", label: "Kind", kind: "choice", choices: [["container", "Container"], ["modules", "Modules"], ["venv", "Virtual environment"]] },
      { name: "source", label: "Source", of: ["container"], help: "docker://REGISTRY/REPOSITORY:TAG, or the path of a SIF or definition file. The image is built from it." },
      { name: "digest", label: "Digest", of: ["container"], help: "What the source was when the image was built. A build fills it in." },
      { name: "image", label: "Image", of: ["container"], help: "The path of the SIF. A build fills it in." },
      { name: "server", label: "Notebook server", kind: "choice", of: ["container"], choices: [["inside", "In the container"], ["beside", "Beside it, from the node"]], help: "The smoke test finds out which one." },
      { name: "python", label: "Python of the server", of: ["container"], help: "The path in the container. A build fills it in." },
      { name: "path", label: "Virtual environment", of: ["modules", "venv"], help: "Its folder on the nodes." },
      { name: "opens", label: "Opens", kind: "words", help: "What its sessions can open beside JupyterLab, separated by commas." },
      { name: "modules", label: "Modules", kind: "words", of: ["modules"], help: "In the order in which they are loaded, separated by commas." },
    ],
  },
  {
    legend: "Kernels and notebooks",
    folded: true,
    fields: [
      {
        name: "kernels", label: "Kernels", kind: "rows", one: "kernel", help: "None: those that the server finds.",
        columns: [{ name: "name", label: "Kernel’s name" }, { name: "title", label: "Kernel’s title" }, { name: "language", label: "Language" }],
      },
      { name: "starters", label: "Starter notebooks", kind: "words", help: "Files that the portal has, e.g. pytorch.ipynb; separated by commas." },
    ],
  },
  {
    legend: "Resources that are set beforehand",
    folded: true,
    fields: [
      { name: "default.gpus", label: "GPUs", kind: "number" },
      { name: "default.gpu_type", label: "GPU type" },
      { name: "default.cpus", label: "CPUs", kind: "number" },
      { name: "default.memory", label: "Memory", help: MEMORY },
      { name: "default.time", label: "Time", help: TIME },
      { name: "default.nodes", label: "Nodes", kind: "number" },
    ],
  },
  {
    legend: "The most that one may ask for",
    folded: true,
    fields: [
      { name: "max_gpus", label: "Most GPUs", kind: "number" },
      { name: "max_cpus", label: "Most CPUs", kind: "number" },
      { name: "max_memory", label: "Most memory", help: MEMORY },
      { name: "max_time", label: "Longest time", help: TIME },
      { name: "idle_time", label: "Idle time", help: "After it a session with idle GPUs is told so. Empty: the site’s." },
    ],
  },
  {
    legend: "What it needs of a node",
    folded: true,
    fields: [
      { name: "gpu_types", label: "GPU types", kind: "words", help: "Slurm’s names, separated by commas. Empty: all of them, where the tests pass." },
      { name: "min_driver", label: "Oldest driver", help: "E.g. 535.104" },
      { name: "min_cuda", label: "Oldest CUDA", help: "E.g. 12.4" },
    ],
  },
  {
    legend: "Who may see it",
    folded: true,
    fields: [
      { name: "groups", label: "Groups", kind: "words", help: "Separated by commas. Neither groups nor courses: everyone." },
      { name: "courses", label: "Courses", kind: "words", help: "Separated by commas." },
    ],
  },
  {
    legend: "Folders and variables",
    folded: true,
    fields: [
      {
        name: "binds", label: "Folders of the node", kind: "rows", one: "folder", of: ["container"],
        help: "What a container sees of the node beside a person’s own. This site says which ones are allowed.",
        columns: [
          { name: "source", label: "On the node" },
          { name: "target", label: "In the container", optional: true },
          { name: "read_only", label: "Read only", kind: "check" },
        ],
      },
      {
        name: "variables", label: "Variables", kind: "pairs", one: "variable", help: "Not for passwords: everyone who uses it can read them.",
        columns: [{ name: "name", label: "Variable" }, { name: "value", label: "Value" }],
      },
    ],
  },
];

// "default.gpus" of an object, and back: what is empty is not in it.
export function take(values, name) {
  return name.split(".").reduce((found, step) => found?.[step], values);
}
export const isEmpty = (value) => value === "" || value === null || value === undefined || (typeof value === "object" && !Object.keys(value).length);
export function put(values, name, value) {
  const [first, ...more] = name.split(".");
  if (more.length) {
    const inner = { ...(values[first] ?? {}) };
    put(inner, more.join("."), value);
    if (Object.keys(inner).length) values[first] = inner;
    else delete values[first];
  } else if (isEmpty(value)) {
    delete values[first];
  } else {
    values[first] = value;
  }
}
