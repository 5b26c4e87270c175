/** Marks of an axis of time: round moments in the zone of the browser. */

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 86_400_000;
const STEPS = [
  0.1 * SECOND, 0.5 * SECOND, SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE,
  HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 91 * DAY, 365 * DAY, 3_650 * DAY,
];
const ROOM = 84;
const AXIS = 24;
const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {{from_ms: number, before_ms: number, width: number, height: number, line: string, ink: string}} given
 */
export function drawTicks(pen, { from_ms, before_ms, width, height, line, ink }) {
  const length = before_ms - from_ms;
  const step = STEPS.find((each) => (each / length) * width >= ROOM) ?? STEPS[STEPS.length - 1];
  const zone = new Date(from_ms).getTimezoneOffset() * MINUTE;
  const base = height - AXIS;
  pen.font = '11px system-ui, sans-serif';
  pen.fillStyle = line;
  pen.fillRect(0, base, width, 1);
  let day = '';
  for (let ms = Math.ceil((from_ms - zone) / step) * step + zone; ms < before_ms; ms += step) {
    const x = ((ms - from_ms) / length) * width;
    pen.fillStyle = line;
    pen.fillRect(Math.round(x), base, 1, 4);
    const [text, today] = labelOf(new Date(ms), step);
    pen.fillStyle = ink;
    const shown = today !== day && step < DAY ? `${today} ${text}` : text;
    day = today;
    if (x + 4 + pen.measureText(shown).width < width) pen.fillText(shown, x + 4, base + 16);
  }
}

/** @param {Date} at @param {number} step @returns {[string, string]} the label, and the day */
function labelOf(at, step) {
  const pad = (/** @type {number} */ value) => String(value).padStart(2, '0');
  const day = `${at.getDate()} ${MONTHS[at.getMonth()]}`;
  if (step >= 300 * DAY) return [String(at.getFullYear()), day];
  if (step >= DAY) return [step >= 30 * DAY ? `${day} ${at.getFullYear()}` : day, day];
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  if (step >= MINUTE) return [time, day];
  const seconds = `${time}:${pad(at.getSeconds())}`;
  return [step >= SECOND ? seconds : `${seconds}.${Math.floor(at.getMilliseconds() / 100)}`, day];
}
