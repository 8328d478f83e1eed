// What the page's address asks for: …/hub/spawn#environment=x&gpus=2, or ?opt-environment=x&opt-gpus=2. What
// does not fit is listed, with the reason.

// As JupyterHub reads a query: if names begin with "opt-", the others do not count.
function linkedOptions() {
  const own = ["next", "display_name", "_xsrf"];
  const query = [...new URLSearchParams(window.location.search)].filter(([name]) => !own.includes(name));
  const marked = query.filter(([name]) => name.startsWith("opt-"));
  const options = marked.length ? marked.map(([name, text]) => [name.slice(4), text]) : query;
  return new URLSearchParams([...options, ...new URLSearchParams(window.location.hash.slice(1))]);
}

// Fills the form in; returns a sentence for each value that does not fit.
function take(wanted) {
  const ignored = [];
  // In this order, since each choice limits the next ones. A type counts only with
  // GPUs, and fit() clamps the count, so the type goes first.
  const order = ["environment", "partition", "gpu_type", "gpus"];
  for (const name of [...order, ...[...wanted.keys()].filter((key) => !order.includes(key))]) {
    if (!wanted.has(name)) continue;
    const text = wanted.get(name);
    if (set(name, text)) {
      if (name !== "environment") touched.add(name);
    } else if (text && text !== onlyChoice(name)) {
      ignored.push(whyIgnored(name, text));
    }
    fit();
  }
  const folded = data.fields.filter((entry) => entry.folded).map((entry) => entry.name);
  const more = document.getElementById("launch-more");
  if (more && folded.some((name) => wanted.get(name))) more.open = true;
  return ignored;
}

// The value of a field that is not shown because there is nothing to choose; "" if that is not known.
function onlyChoice(name) {
  if (field(name)) return "";
  if (name === "kind") return data.usual_kind;
  const choices = { gpu_type: Object.keys(data.gpus), partition: Object.keys(data.partitions) }[name];
  return choices?.length === 1 ? choices[0] : String(data.words[name]?.usual ?? "");
}

function whyIgnored(name, text) {
  const label = data.words[name]?.label ?? { environment: "Environment", kind: "Open" }[name];
  if (!label) return `“${name}” is not an option of a session.`;
  const what = `${label} “${text}”`;
  if (name === "environment") return `${what} does not exist, or you may not use it.`;
  if (name === "gpu_type" && text in data.gpus) return `${what}: ${whyNot(text) || "no GPUs are chosen."}`;
  const offered = options(name).filter((option) => !option.disabled);
  const numbers = name === "gpus" ? offered.map((option) => Number(option.value)) : [];
  const most = numbers.length ? Math.max(...numbers) : Number(field(name)?.max || 0);
  if (Number(text) > most && (most || name === "gpus")) return `${what}: at most ${most} with these choices.`;
  if (name === "time" && offered.length) return `${what} is not among the choices; the longest is ${offered.at(-1).textContent.trim()}.`;
  if (field(name) && !options(name).length) return `${what} must be ${data.words[name].should_be}.`;
  return `${what} is not among the choices here.`;
}

function listIgnored(sentences) {
  const place = document.getElementById("launch-ignored");
  if (!place || !sentences.length) return;
  const list = document.createElement("ul");
  list.append(
    ...sentences.map((sentence) => {
      const item = document.createElement("li");
      item.textContent = sentence;
      return item;
    }),
  );
  place.append("The link asked for what does not fit here, so this was left out:", list);
  place.className = "alert alert-warning";
}
