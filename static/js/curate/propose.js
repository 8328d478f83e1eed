// Proposes a name, title, tags and icon for an image reference or path.

const KNOWN = {
  pytorch: ["PyTorch", "fire"],
  tensorflow: ["TensorFlow", "diagram-project"],
  rapidsai: ["RAPIDS", "bolt"],
  rapids: ["RAPIDS", "bolt"],
  mxnet: ["MXNet", "layer-group"],
  cuda: ["CUDA", "microchip"],
  caffe2: ["Caffe2", "mug-hot"],
  "r-base": ["R", "chart-line"],
  python: ["Python", "code"],
  horovod: ["Horovod", "arrows-spin"],
};

// {name, title, tags, icon} for "docker://nvcr.io/nvidia/pytorch:25.10-py3" or "/path/name.sif"; null
// for other texts.
export function propose(source) {
  const text = source.trim();
  const path = /^\/.*?([^/]+?)(?:\.sif|\.def|\.img)?\/?$/.exec(text);
  const image = /^docker:\/\/(?:[^\s@]*\/)?([^\s/:@]+)(?::([^\s/@]+))?(?:@sha256:[0-9a-f]+)?$/.exec(text);
  const [, word, tag = ""] = image ?? path ?? [];
  if (!word) return null;
  const software = word.toLowerCase();
  const [title, icon] = KNOWN[software] ?? [word.replace(/[-_]+/g, " ").replace(/^./, (letter) => letter.toUpperCase()), ""];
  const version = /^v?([0-9]+(?:\.[0-9]+)*)/.exec(tag)?.[1] ?? "";
  const python = /(?:^|-)py(?:thon)?([23])/.exec(tag)?.[1];
  const ngc = /^docker:\/\/nvcr\.io\//.test(text);
  const name = [software, version || (tag !== "latest" ? tag : "")].filter(Boolean).join("-");
  return {
    name: name.toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "").slice(0, 63).replace(/[^a-z0-9]+$/, ""),
    title: [title, version || (tag !== "latest" ? tag : "")].filter(Boolean).join(" ").slice(0, 120),
    tags: [...new Set([title.toLowerCase(), python ? `python ${python}` : "", ngc ? "ngc" : ""].filter(Boolean))].map((tag) => tag.slice(0, 40)),
    icon,
  };
}
