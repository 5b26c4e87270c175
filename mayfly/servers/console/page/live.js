/** The state of the queue manager, kept up to date while the page is seen, for all who watch it. */
import { ask, ServerLost } from './api.js';
import { fail } from './notices.js';
import { here, session } from './session.js';
import { hear } from './signals.js';

/**
 * @typedef {{name: string, depth: number, present: Record<string, number>|null, oldest_age_ms: number|null,
 *   input_count: number, output_count: number, puts: number, ended: Record<string, number>}} Queue
 * @typedef {{now_ms: number, next_due_ms: number|null, is_releasing: boolean, ledger_first: number,
 *   ledger_last: number, queues: Queue[], others: Queue}} Snapshot
 * @typedef {{at: number, put: number|null, got: number|null, expired: number|null, released: number|null}} Sample
 */

const PERIOD_MS = 2_000;
const MOST_SAMPLES = 300;

/** @type {Set<(snapshot: Snapshot) => void>} */
const watchers = new Set();
/** @type {Snapshot|null} */
let latest = null;
/** @type {Sample[]} */
let samples = [];
/** @type {{at: number, totals: Record<string, number>}|null} */
let before = null;
/** @type {ReturnType<typeof setTimeout>|undefined} */
let timer;

/**
 * Call with each snapshot, and at once with the latest one, until the signal is aborted.
 * @param {(snapshot: Snapshot) => void} watcher
 * @param {AbortSignal} signal
 */
export function watch(watcher, signal) {
  watchers.add(watcher);
  signal.addEventListener('abort', () => watchers.delete(watcher));
  if (latest) watcher(latest);
}

/** Rates a second, the oldest first; null where nothing is known. @returns {Sample[]} */
export const history = () => samples;

/** The time of the queue manager, whose clock may be another than the browser's. */
export const now = () => latest?.now_ms ?? Date.now();

/** Begin again, as with another queue manager. */
export function restart() {
  latest = before = null;
  samples = [];
  clearTimeout(timer);
  if (session.user) look();
}

/** Follow the sign-in and whether the page is seen. */
export function start() {
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (!document.hidden && session.user) look();
  });
  hear('manager', restart);
  restart();
}

async function look() {
  clearTimeout(timer);
  const manager = session.manager;
  try {
    const found = await ask('GET', here('queues'));
    if (manager !== session.manager || !session.user) return;
    take(found);
  } catch (error) {
    if (!(error instanceof ServerLost)) fail(error);
    before = null;
  }
  if (session.user && !document.hidden) timer = setTimeout(look, PERIOD_MS);
}

/** @param {Snapshot} found */
function take(found) {
  const at = performance.now();
  const totals = totalsOf(found);
  const passed = before ? (at - before.at) / 1_000 : 0;
  const perSecond = (/** @type {string} */ name) => (before && passed ? Math.max(0, totals[name] - before.totals[name]) / passed : null);
  samples.push({ at: Date.now(), put: perSecond('put'), got: perSecond('got'), expired: perSecond('expired'), released: perSecond('released') });
  samples = samples.slice(-MOST_SAMPLES);
  before = { at, totals };
  latest = found;
  for (const watcher of watchers) watcher(found);
}

/**
 * Add up all queues. A message that is released, or goes to the dead-letter queue, begins a life
 * there: it was put once.
 * @param {Snapshot} found
 */
function totalsOf(found) {
  const all = [...found.queues, found.others];
  const ended = (/** @type {string} */ word) => all.reduce((sum, queue) => sum + (queue.ended[word] ?? 0), 0);
  const [released, dead] = [ended('released'), ended('dead_lettered')];
  const puts = all.reduce((sum, queue) => sum + queue.puts, 0) - released - dead;
  return { put: puts, got: ended('got'), expired: ended('expired'), released };
}
