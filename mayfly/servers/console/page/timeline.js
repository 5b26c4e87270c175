/** Counts over time that one can move and zoom, by wheel, drag, keys and buttons. */
import { colour } from './chart.js';
import { h } from './dom.js';
import { count, counted, local } from './format.js';
import { hear } from './signals.js';
import { drawTicks } from './timeline_axis.js';

const BAR = 6;
const AXIS = 24;
const LEAST_MS = 1_000;
/** No delivery time is later: a day in the year 2109. */
const LATEST_MS = 2 ** 42;
const ASK_AFTER_MS = 60;
const TELL_AFTER_MS = 250;
const STEP = 0.2;

/**
 * @typedef {{from_ms: number, before_ms: number}} Range
 * @typedef {Range & {counts: number[]}} Steps counts of steps of the same length
 */

/**
 * @param {{label: string, range: Range, all: () => Promise<Range>, load: (range: Range, steps: number, signal: AbortSignal) => Promise<Steps>,
 *   moved: (range: Range, total: number) => void, failed: (error: any) => void, now: () => number, signal: AbortSignal}} asked
 *   `moved` is called when the range has come to rest, with the number of messages in it
 */
export function timeline(asked) {
  let { from_ms, before_ms } = asked.range;
  /** @type {Steps|null} */ let shown = null;
  /** @type {AbortController|null} */ let asking = null;
  /** @type {any} */ let askTimer;
  /** @type {any} */ let tellTimer;
  const canvas = /** @type {HTMLCanvasElement} */ (h('canvas', { role: 'img', 'aria-label': asked.label }));
  const said = h('p', { class: 'spoken', role: 'status' });
  const readout = h('span', { class: 'quiet' });
  const place = h('div', {
    class: 'timeline', tabindex: '0', role: 'group', 'aria-label': `${asked.label}. Arrow keys move, plus and minus zoom, 0 shows all.`,
    onkeydown: keys, onpointerdown: grab, ondblclick: (/** @type {MouseEvent} */ event) => zoom(0.25, portion(event)),
  }, canvas);
  place.addEventListener('wheel', wheel, { passive: false });
  const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ run) =>
    h('button', { type: 'button', class: 'plain', 'aria-label': label, title: label, onclick: run }, text);
  const tools = h('div', { class: 'tools' }, readout,
    button('◂', 'Earlier', () => move(-STEP)), button('▸', 'Later', () => move(STEP)),
    button('+', 'Zoom in', () => zoom(0.5)), button('−', 'Zoom out', () => zoom(2)), button('All', 'Show all', all));
  const sizes = new ResizeObserver(() => (paint(), ask()));
  sizes.observe(place);
  asked.signal.addEventListener('abort', () => (sizes.disconnect(), asking?.abort(), clearTimeout(askTimer), clearTimeout(tellTimer)));
  hear('theme', () => requestAnimationFrame(paint), asked.signal);

  /** @param {MouseEvent} event where in the range the pointer is, from 0 to 1 */
  const portion = (event) => (event.clientX - place.getBoundingClientRect().left) / Math.max(1, place.clientWidth);

  /** @param {number} share */
  function move(share) {
    const step = share * (before_ms - from_ms);
    set(from_ms + step, before_ms + step);
  }

  /** @param {number} factor @param {number} [about] */
  function zoom(factor, about = 0.5) {
    const length = Math.max(LEAST_MS, (before_ms - from_ms) * factor);
    const fixed = from_ms + about * (before_ms - from_ms);
    set(fixed - about * length, fixed + (1 - about) * length);
  }

  async function all() {
    try {
      const range = await asked.all();
      set(range.from_ms, range.before_ms);
    } catch (error) {
      asked.failed(error);
    }
  }

  /** @param {number} from @param {number} before */
  function set(from, before) {
    from_ms = Math.max(0, Math.min(from, LATEST_MS - LEAST_MS));
    before_ms = Math.min(LATEST_MS, Math.max(from_ms + LEAST_MS, before));
    requestAnimationFrame(paint);
    ask();
  }

  function ask() {
    clearTimeout(askTimer);
    askTimer = setTimeout(load, shown ? ASK_AFTER_MS : 0);
  }

  async function load() {
    asking?.abort();
    const mine = (asking = new AbortController());
    const steps = Math.max(1, Math.floor(place.clientWidth / BAR));
    const range = { from_ms: Math.floor(from_ms), before_ms: Math.ceil(before_ms) };
    try {
      const found = await asked.load(range, steps, mine.signal);
      if (mine.signal.aborted) return;
      shown = found;
      paint();
      const total = found.counts.reduce((sum, each) => sum + each, 0);
      const text = `${counted(total, 'message')} due from ${local(range.from_ms)} to ${local(range.before_ms)}`;
      canvas.setAttribute('aria-label', text);
      clearTimeout(tellTimer);
      tellTimer = setTimeout(() => ((said.textContent = text), asked.moved(range, total)), TELL_AFTER_MS);
    } catch (error) {
      if (!mine.signal.aborted) asked.failed(error);
    }
  }

  function paint() {
    const [width, height] = [place.clientWidth, place.clientHeight];
    const ratio = devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    pen.scale(ratio, ratio);
    const at = (/** @type {number} */ ms) => ((ms - from_ms) / (before_ms - from_ms)) * width;
    readout.textContent = `${local(from_ms)} – ${local(before_ms)}`;
    drawTicks(pen, { from_ms, before_ms, width, height, line: colour('line'), ink: colour('quiet') });
    if (shown) bars(pen, shown, at, height - AXIS);
    const now_x = at(asked.now());
    if (now_x >= 0 && now_x <= width) {
      pen.fillStyle = colour('accent');
      pen.fillRect(Math.round(now_x), 0, 1.5, height - AXIS);
      pen.fillText('now', Math.min(now_x + 4, width - 120), 11);
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {Steps} steps @param {(ms: number) => number} at @param {number} base */
  function bars(pen, { from_ms: from, before_ms: before, counts }, at, base) {
    const most = counts.reduce((high, each) => Math.max(high, each), 0);
    if (!most) return;
    const step = (before - from) / counts.length;
    const [waiting, late, now] = [colour('waiting'), colour('dead'), asked.now()];
    counts.forEach((each, index) => {
      if (!each) return;
      const left = at(from + index * step);
      const high = Math.max(2, (each / most) * (base - 16));
      pen.fillStyle = from + (index + 1) * step <= now ? late : waiting;
      pen.fillRect(left + 0.5, base - high, Math.max(1.5, at(from + (index + 1) * step) - left - 1), high);
    });
    pen.fillStyle = colour('quiet');
    const text = `${count(most)} at most`;
    pen.fillText(text, place.clientWidth - pen.measureText(text).width - 4, 11);
  }

  /** @param {WheelEvent} event */
  function wheel(event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(((event.deltaX || event.deltaY) / place.clientWidth) * 0.8);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240))), portion(event));
  }

  /** @param {PointerEvent} event */
  function grab(event) {
    if (event.button !== 0) return;
    const [start, from, before] = [event.clientX, from_ms, before_ms];
    place.setPointerCapture(event.pointerId);
    const drag = (/** @type {PointerEvent} */ moved) => {
      const step = ((start - moved.clientX) / place.clientWidth) * (before - from);
      if (step) set(from + step, before + step);
    };
    place.addEventListener('pointermove', drag);
    place.addEventListener('pointerup', () => place.removeEventListener('pointermove', drag), { once: true });
  }

  /** @param {KeyboardEvent} event */
  function keys(event) {
    const act = { ArrowLeft: () => move(-STEP), ArrowRight: () => move(STEP), '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: all }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  return { element: h('div', {}, h('div', { class: 'chart-head' }, h('h2', {}, asked.label), tools), place, said), set, ask };
}
