// The form's fields of an environment (portal.models.catalog.environment.Environment).
//
// kind: text (default), area (Markdown), choice, number, words (a list, separated by commas),
// rows (a list of objects) or pairs (an object of texts). `of`: the kinds of environment with this field.
// `usual`: the value that most have; another one opens a folded group, unless `opens` is false: each
// definition has a value of its own.

import { helpOf, resourceFields } from "../resource-fields.js";
import { AUDIENCES } from "./audience.js";

// `resources`: the portal's fields of resources (portal/launch/choices/form_fields.py).
export const environmentGroups = (resources) => [
  {
    legend: "General",
    fields: [
      { name: "title", label: "Title", help: "Shown on the tile and on the launch page." },
      { name: "name", label: "Name", help: "Lowercase letters, digits, dots, dashes and underscores. Cannot be changed later: links and files use it." },
      { name: "tags", label: "Tags", kind: "words", help: "Framework, version, language; separated by commas." },
      { name: "description", label: "Description", kind: "area", help: "Markdown, shown on the environment’s page." },
      { name: "icon", label: "Icon", help: "A Font Awesome name, e.g. fire or chart-line. Empty: chosen from the tags." },
      { name: "order", label: "Order", kind: "number", help: "Lower numbers come first. Default: 100." },
    ],
  },
  {
    legend: "Image",
    fields: [
      { name: "kind", label: "Kind", kind: "choice", choices: [["container", "Container"], ["modules", "Modules"], ["venv", "Virtual environment"]] },
      { name: "source", label: "Source", of: ["container"], help: "The image is built from it: docker://REGISTRY/REPOSITORY:TAG, or the path of a SIF or definition file." },
      { name: "digest", label: "Digest", of: ["container"], help: "Digest of the source when the image was built. Set by the build." },
      { name: "image", label: "Image file", of: ["container"], help: "Path of the SIF file. Set by the build." },
      { name: "server", label: "Notebook server", kind: "choice", of: ["container"], choices: [["inside", "In the container"], ["beside", "Beside the container, on the node"]], help: "Detected by the smoke test." },
      { name: "python", label: "Python of the server", of: ["container"], help: "Path in the container. Set by the build." },
      { name: "path", label: "Virtual environment", of: ["modules", "venv"], help: "Path of its folder on the nodes." },
      { name: "opens", label: "Applications", kind: "words", help: "Applications that sessions can open besides JupyterLab, separated by commas." },
      { name: "modules", label: "Modules", kind: "words", of: ["modules"], help: "In load order, separated by commas." },
    ],
  },
  {
    legend: "Kernels and notebooks",
    folded: true,
    fields: [
      {
        name: "kernels", label: "Kernels", kind: "rows", noun: "kernel", help: "Empty: all kernels that the server finds.",
        columns: [{ name: "name", label: "Kernel name" }, { name: "title", label: "Kernel title" }, { name: "language", label: "Language" }],
      },
      { name: "starters", label: "Starter notebooks", kind: "words", help: "Notebook files of the portal, e.g. pytorch.ipynb; separated by commas." },
    ],
  },
  {
    legend: "Default resources",
    folded: true,
    fields: resourceFields(resources, "default"),
  },
  {
    legend: "Limits",
    folded: true,
    fields: [
      { name: "max_gpus", label: "Maximum GPUs", kind: "number" },
      { name: "max_cpus", label: "Maximum CPUs", kind: "number" },
      { name: "max_memory", label: "Maximum memory", help: helpOf(resources, "memory") },
      { name: "max_time", label: "Maximum time", help: helpOf(resources, "time") },
      { name: "idle_time", label: "Idle time", help: "Users are notified when the session’s GPUs have been idle for this long. Empty: the site’s setting." },
    ],
  },
  {
    legend: "Requirements",
    folded: true,
    fields: [
      { name: "gpu_types", label: "GPU types", kind: "words", help: "Slurm’s GPU types, separated by commas. Empty: all types on which the tests pass." },
      { name: "min_driver", label: "Minimum driver", help: "E.g. 535.104" },
      { name: "min_cuda", label: "Minimum CUDA", help: "E.g. 12.4" },
    ],
  },
  {
    legend: "Visible to",
    folded: true,
    fields: AUDIENCES.map(({ name, title, help }) => ({ name, label: title, kind: "words", help })),
  },
  {
    legend: "Bind mounts and environment variables",
    folded: true,
    fields: [
      {
        name: "binds", label: "Bind mounts", kind: "rows", noun: "bind mount", of: ["container"],
        help: "Paths of the node that the container sees in addition to the user’s own folders. The site’s settings define the allowed paths.",
        columns: [
          { name: "source", label: "Path on the node" },
          { name: "target", label: "Path in the container", optional: true },
          { name: "read_only", label: "Read-only", kind: "check" },
        ],
      },
      {
        name: "variables", label: "Environment variables", kind: "pairs", noun: "variable", help: "Not for passwords: every user of the environment can read them.",
        columns: [{ name: "name", label: "Variable" }, { name: "value", label: "Value" }],
      },
    ],
  },
];

// Get and set "default.gpus" of an object; empty values are left out.
export function take(values, name) {
  return name.split(".").reduce((value, step) => value?.[step], values);
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
