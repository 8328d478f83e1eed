// Plays a film (film.py) on a canvas in real time, and records the canvas with the browser's own
// recorder. The browser is too slow to do that while the portal's pages are on: hence afterwards.

const RATE = 12; // pictures a second: enough for a pointer that glides
const GLIDE = 0.45; // seconds of the pointer from one place to the next
const RIPPLE = 0.35; // seconds in which a click is seen
const BAND = "#1f2328";
const POINTER = "rgba(255, 193, 7, 0.45)";

const film = { frames: [], captions: [], moves: [], presses: [], length: 0 };

// Adds some of the film's frames: too many for a single message.
function load(frames) {
  film.frames.push(...frames);
}

// Returns the last of `events`, [second, …] each, that is not after `second`; null before the first.
function latest(events, second) {
  let found = null;
  for (const event of events) {
    if (event[0] > second) break;
    found = event;
  }
  return found;
}

// Where the pointer is: between its last two places, or at the last.
function pointer(second) {
  const to = latest(film.moves, second);
  if (!to) return null;
  const from = film.moves[film.moves.indexOf(to) - 1] ?? to;
  const way = Math.min((second - to[0]) / GLIDE, 1);
  const eased = way * way * (3 - 2 * way);
  return [1, 2].map((axis) => from[axis] + (to[axis] - from[axis]) * eased);
}

function draw(pen, picture, second, { width, height, page }) {
  if (picture) pen.drawImage(picture, 0, 0, width, page);
  const place = pointer(second);
  if (place) {
    const press = latest(film.presses, second);
    const ripple = press && second - press[0] < RIPPLE ? (second - press[0]) / RIPPLE : 0;
    pen.beginPath();
    pen.arc(...place, 11 + 16 * ripple, 0, 2 * Math.PI);
    pen.fillStyle = POINTER;
    pen.fill();
    pen.lineWidth = 2;
    pen.strokeStyle = BAND;
    pen.stroke();
  }
  pen.fillStyle = BAND;
  pen.fillRect(0, page, width, height - page);
  pen.fillStyle = "#ffffff";
  pen.font = "600 22px sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(latest(film.captions, second)?.[1] ?? "", width / 2, (page + height) / 2);
}

async function decoded(data) {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  return image;
}

// Resolves to the film as WebM, in base64. `bits`: of the video, each second.
async function play({ length, captions, moves, presses, width, height, page, bits }) {
  Object.assign(film, { length, captions, moves, presses });
  const canvas = document.querySelector("canvas");
  Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d", { alpha: false });
  const types = ["video/webm;codecs=vp9", "video/webm;codecs=vp8"];
  const mimeType = types.find((type) => MediaRecorder.isTypeSupported(type));
  const recorder = new MediaRecorder(canvas.captureStream(), {
    mimeType,
    videoBitsPerSecond: bits,
    videoKeyFrameIntervalDuration: 20000,
  });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const ended = new Promise((resolve) => (recorder.onstop = resolve));
  let frame = latest(film.frames, 0);
  let picture = frame && (await decoded(frame[1]));
  draw(pen, picture, 0, { width, height, page });
  recorder.start();
  const began = performance.now();
  for (let tick = 1; ; tick += 1) {
    const wait = began + (1000 * tick) / RATE - performance.now();
    await new Promise((resolve) => setTimeout(resolve, Math.max(wait, 0)));
    const second = (performance.now() - began) / 1000;
    if (second > film.length) break;
    const due = latest(film.frames, second);
    if (due !== frame) {
      frame = due;
      picture = await decoded(frame[1]);
    }
    draw(pen, picture, second, { width, height, page });
  }
  recorder.stop();
  await ended;
  const reader = new FileReader();
  reader.readAsDataURL(new Blob(parts));
  await new Promise((resolve) => (reader.onload = resolve));
  return { mimeType, video: reader.result.split(",")[1] };
}
