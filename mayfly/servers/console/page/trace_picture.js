/**
 * The lives of a message as lanes. Time is drawn by the logarithm of each gap between two moments:
 * a life of milliseconds is seen beside a delay of days.
 */
import { h, svg } from './dom.js';
import { session } from './session.js';
import { duration, local, stateKind, stateWord, utc } from './format.js';

const LEFT = 176;
const RIGHT = 96;
const TOP = 28;
const LANE = 32;
const BAR = 12;
const BOTTOM = 28;
const LABEL = 132;
const LEAST = LEFT + 160 + RIGHT;
const MOST_LANES = 40;

/**
 * @param {{at_ms: number, entries: any[], sentence: string}} told
 * @param {AbortSignal} signal
 */
export function picture(told, signal) {
  // A narrow page shows a part of it, which keys move as well.
  const place = h('div', { class: 'lanes', tabindex: '0', role: 'group', 'aria-label': 'Picture of the lives' });
  const entries = told.entries.slice(-MOST_LANES);
  const sizes = new ResizeObserver(() => place.replaceChildren(draw(entries, told.at_ms, Math.max(LEAST, place.clientWidth))));
  sizes.observe(place);
  signal.addEventListener('abort', () => sizes.disconnect());
  return place;
}

/** @param {any[]} entries @param {number} now_ms @param {number} width */
function draw(entries, now_ms, width) {
  const moments = momentsOf(entries, now_ms);
  const at = scaleOf(moments, LEFT, width - RIGHT);
  const height = TOP + entries.length * LANE + BOTTOM;
  const base = height - BOTTOM;
  const said = `${entries.length} lives: ${entries.map((entry) => `${entry.queue} ${stateWord(entry.state)}`).join(', ')}`;
  return svg('svg', { width, height, role: 'img', 'aria-label': said },
    moments.map((ms) => svg('line', { class: 'tick', x1: at(ms), x2: at(ms), y1: TOP - 4, y2: base })),
    gaps(moments, at), labels(moments, at, base, now_ms),
    entries.map((entry, index) => lane(entry, TOP + index * LANE, at, now_ms)));
}

/** The moments at which something happened, in order. @param {any[]} entries @param {number} now_ms */
function momentsOf(entries, now_ms) {
  const found = new Set();
  for (const entry of entries) {
    found.add(begin(entry)).add(entry.ended_ms ?? now_ms);
    if (isStaged(entry) && entry.ended_ms === null) found.add(entry.deliver_at_ms);
    if (hasDeadline(entry)) found.add(entry.expire_at_ms);
  }
  return [...found].sort((a, b) => a - b);
}

const STAGING = 'SYSTEM.DDELAY.LOCAL.QUEUE';

/** @param {any} entry */
const isStaged = ({ queue }) => queue === STAGING;

/** When it came to its queue: a delayed message comes at its delivery time. @param {any} entry */
const begin = (entry) => (isStaged(entry) ? entry.put_ms : Math.max(entry.put_ms, Math.min(entry.deliver_at_ms, entry.ended_ms ?? Infinity)));

/** Is its deadline part of this life? @param {any} entry */
const hasDeadline = ({ expire_at_ms, ended_ms }) => expire_at_ms !== null && (ended_ms === null || expire_at_ms <= ended_ms);

/** Places of moments; each gap is as wide as its logarithm. @param {number[]} moments @param {number} from @param {number} to */
function scaleOf(moments, from, to) {
  const weights = moments.slice(1).map((ms, index) => 1 + Math.log10(1 + ms - moments[index]));
  const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  const places = new Map([[moments[0], from]]);
  let sum = 0;
  weights.forEach((weight, index) => places.set(moments[index + 1], from + ((sum += weight) / total) * (to - from)));
  return (/** @type {number} */ ms) => Math.round(places.get(ms) ?? from) + 0.5;
}

/** How long each gap is, where there is room. @param {number[]} moments @param {(ms: number) => number} at */
function gaps(moments, at) {
  return moments.slice(1).map((ms, index) => {
    const [from, to] = [at(moments[index]), at(ms)];
    const text = duration(ms - moments[index]);
    return to - from < text.length * 7 + 8 ? null : svg('text', { class: 'gap', x: (from + to) / 2, y: TOP - 12, 'text-anchor': 'middle' }, text);
  });
}

/** The moments below, where there is room. @param {number[]} moments @param {(ms: number) => number} at @param {number} base @param {number} now_ms */
function labels(moments, at, base, now_ms) {
  let free = -Infinity;
  return moments.map((ms) => {
    if (at(ms) - LABEL / 2 < free) return null;
    free = at(ms) + LABEL / 2;
    return svg('text', { class: 'when', x: at(ms), y: base + 18, 'text-anchor': 'middle' }, svg('title', {}, utc(ms)), ms === now_ms ? 'now' : local(ms));
  });
}

/** @param {any} entry @param {number} top @param {(ms: number) => number} at @param {number} now_ms */
function lane(entry, top, at, now_ms) {
  const middle = top + LANE / 2;
  const end_ms = entry.ended_ms ?? now_ms;
  const dead_ms = hasDeadline(entry) ? Math.min(Math.max(begin(entry), entry.expire_at_ms), end_ms) : end_ms;
  const kind = stateKind(entry.state);
  const bar = (/** @type {number} */ from, /** @type {number} */ until, /** @type {string} */ name) =>
    until > from ? svg('rect', { class: `bar-${name}`, x: at(from), y: middle - BAR / 2, width: Math.max(2, at(until) - at(from)), height: BAR, rx: 2 }) : null;
  return svg('g', { class: `lane ${kind}` },
    svg('text', { class: 'name', x: 0, y: middle + 4 }, svg('title', {}, `${entry.queue}@${entry.queue_manager}`), short(nameOf(entry))),
    bar(begin(entry), dead_ms, isStaged(entry) ? 'waiting' : 'present'), bar(dead_ms, end_ms, 'expired'),
    isStaged(entry) && entry.ended_ms === null && entry.deliver_at_ms > now_ms ? svg('path', { class: 'ahead', d: `M${at(now_ms)} ${middle}H${at(entry.deliver_at_ms)}` }) : null,
    isStaged(entry) && entry.ended_ms === null ? mark(at(entry.deliver_at_ms), middle, 'due', `due ${local(entry.deliver_at_ms)}`) : null,
    hasDeadline(entry) && mark(at(entry.expire_at_ms), middle, 'deadline', `expires ${local(entry.expire_at_ms)}`),
    svg('circle', { class: 'end', cx: at(end_ms), cy: middle, r: 5 }),
    svg('text', { class: 'word', x: at(end_ms) + 10, y: middle + 4 }, stateWord(entry.state)));
}

/** @param {number} x @param {number} y @param {string} kind @param {string} title */
const mark = (x, y, kind, title) => svg('path', { class: `mark-${kind}`, d: `M${x} ${y - 10}V${y + 10}` }, svg('title', {}, title));

/** @param {any} entry */
const nameOf = ({ queue, queue_manager }) => (queue_manager === session.manager ? queue : `${queue}@${queue_manager}`);

/** @param {string} name */
const short = (name) => (name.length > 22 ? `${name.slice(0, 9)}…${name.slice(-12)}` : name);
