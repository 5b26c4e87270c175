/** When messages die: lives that expired by day and hour, from the ledger or a lake. */
import { ask } from './api.js';
import { fill, h, svg } from './dom.js';
import { count } from './format.js';
import { now } from './live.js';
import { newest } from './newest.js';
import { fail } from './notices.js';
import { here } from './session.js';

const HOUR_MS = 3_600_000;
const RANGES = { week: ['Last 7 days', 7], month: ['Last 28 days, by weekday', 28], year: ['Last 364 days, by weekday', 364] };
const [GAP, LEFT, TOP] = [2, 78, 20];
/** Widest and narrowest cell, so that 24 fit a screen of 1280 px and one of 360. */
const [WIDE, NARROW] = [26, 9];

/** @typedef {{label: string, hour: number, ended: number, expired: number}} Cell */

/**
 * A panel with a choice of days, a sentence about the worst hour, and a picture.
 * @param {{queue?: string, signal: AbortSignal}} asked without `queue` all queues together
 */
export function heatMap({ queue, signal }) {
  const nextSignal = newest(signal);
  const options = Object.entries(RANGES).map(([value, [text]]) => h('option', { value }, text));
  const range = /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': 'Days', onchange: () => load().catch(fail) }, options));
  const source = /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': 'Source', hidden: true, onchange: () => load().catch(fail) },
    h('option', { value: 'ledger' }, 'Ledger'), h('option', { value: 'lake' }, 'Lake')));
  const sentence = h('p', { class: 'worst', role: 'status' });
  const picture = h('div', { class: 'heat' });
  const element = h('section', { class: 'panel stack', 'aria-labelledby': 'die' },
    h('div', { class: 'tools' }, h('h2', { id: 'die' }, 'When messages die'), range, source), sentence, picture);

  async function load() {
    const [, days] = RANGES[range.value];
    const first = new Date(now());
    first.setHours(0, 0, 0, 0);
    first.setDate(first.getDate() - Number(days) + 1);
    // One hour more: a day on which clocks go back has 25.
    const asked = { from_ms: first.getTime(), hours: Number(days) * 24 + 1, queue, source: source.value };
    const found = await ask('GET', here('ledger', 'hours'), { query: asked, signal: nextSignal() });
    // Without a lake there is no choice.
    source.hidden = found.lake === null;
    source.title = found.lake ?? '';
    const rows = rowsOf(found, days === 7);
    const cells = rows.flatMap((row) => row);
    fill(sentence, sentenceOf(cells, found.is_cut));
    fill(picture, pictureOf(rows, sentenceOf(cells, found.is_cut), picture.clientWidth));
  }
  return { element, load };
}

/** Cells by day, or by weekday, and hour, in the zone of the browser. @param {{from_ms: number, ended: number[], expired: number[]}} found @param {boolean} isByDay */
function rowsOf({ from_ms, ended, expired }, isByDay) {
  /** @type {Map<string, Cell[]>} */ const rows = new Map();
  ended.forEach((number, index) => {
    const at = new Date(from_ms + index * HOUR_MS);
    const label = at.toLocaleDateString('en-GB', isByDay ? { weekday: 'short', day: 'numeric', month: 'short' } : { weekday: 'long' });
    // The hour behind the last day is one of the next.
    if (isByDay && rows.size === 7 && !rows.has(label)) return;
    if (!rows.has(label)) rows.set(label, Array.from({ length: 24 }, (_none, hour) => ({ label, hour, ended: 0, expired: 0 })));
    const cell = /** @type {Cell[]} */ (rows.get(label))[at.getHours()];
    cell.ended += number;
    cell.expired += expired[index];
  });
  return [...rows.values()];
}

const between = (/** @type {number} */ hour) => `${String(hour).padStart(2, '0')}:00 to ${String(hour + 1).padStart(2, '0')}:00`;
const shareOf = (/** @type {Cell} */ { ended, expired }) => `${((100 * expired) / Math.max(1, ended)).toFixed(0)} %`;

/** @param {Cell[]} cells @param {boolean} isCut */
function sentenceOf(cells, isCut) {
  const total = cells.reduce((sum, { expired }) => sum + expired, 0);
  const cut = isCut ? ' Older rows of the ledger are not counted.' : '';
  if (!total) return `No message expired.${cut}`;
  const worst = cells.reduce((most, cell) => (cell.expired > most.expired ? cell : most));
  const one = `${count(total)} expired. Worst was ${worst.label}, ${between(worst.hour)}: ${count(worst.expired)} (${shareOf(worst)} of what ended then).`;
  return `${one}${dailyHour(cells, total)}${cut}`;
}

/** The hour of the day in which most messages expire, if they do so on several days; else "". @param {Cell[]} cells @param {number} total */
function dailyHour(cells, total) {
  const hours = Array.from({ length: 24 }, (_none, hour) => cells.filter((cell) => cell.hour === hour && cell.expired));
  const numbers = hours.map((each) => each.reduce((sum, { expired }) => sum + expired, 0));
  const hour = numbers.indexOf(Math.max(...numbers));
  if (hours[hour].length < 2) return '';
  return ` By hour of the day: ${count(numbers[hour])} (${((100 * numbers[hour]) / total).toFixed(0)} % of all) from ${between(hour)}, on ${hours[hour].length} days.`;
}

/** The picture in pixels of the screen, so that its text is as large as other text. @param {Cell[][]} rows @param {string} said @param {number} width */
function pictureOf(rows, said, width) {
  const cellWidth = Math.max(NARROW, Math.min(WIDE, Math.floor((width - LEFT) / 24)));
  const cellHeight = Math.max(cellWidth, 18);
  const most = Math.max(1, ...rows.flatMap((row) => row.map(({ expired }) => expired)));
  const hours = [0, 3, 6, 9, 12, 15, 18, 21].map((hour) => svg('text', { x: LEFT + hour * cellWidth, y: 12 }, String(hour).padStart(2, '0')));
  const drawn = rows.map((row, line) => [
    svg('text', { x: 0, y: TOP + line * cellHeight + cellHeight / 2 + 4 }, row[0].label),
    row.map((cell) => svg('rect', {
      class: cell.expired ? 'dies' : 'lives', x: LEFT + cell.hour * cellWidth, y: TOP + line * cellHeight, width: cellWidth - GAP, height: cellHeight - GAP, rx: 3,
      // The square root lets a few be seen beside many.
      'fill-opacity': cell.expired ? (0.15 + 0.85 * Math.sqrt(cell.expired / most)).toFixed(2) : null,
    }, svg('title', {}, `${cell.label} ${between(cell.hour)}: ${count(cell.expired)} of ${count(cell.ended)} expired (${shareOf(cell)})`))),
  ]);
  const [wide, high] = [LEFT + 24 * cellWidth, TOP + rows.length * cellHeight];
  return svg('svg', { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: 'img', 'aria-label': said }, hours, drawn);
}
