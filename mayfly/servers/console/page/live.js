/** The state of the queue manager, as its events tell it while the page is seen, for all watchers. */
import { ask, Problem, ServerLost } from './api.js';
import { fail } from './notices.js';
import { here, session } from './session.js';
import { hear, tell } from './signals.js';

/**
 * @typedef {{name: string, depth: number, present: Record<string, number>, oldest_put_ms: number|null,
 *   input_count: number, output_count: number, puts: number, ended: Record<string, number>}} Queue
 * @typedef {{queues: Map<string, Queue>, [figure: string]: any}} Snapshot the figures of the event
 *   `overview` (docs/HTTP.md), and the queues with the most messages by name
 */

const RETRY_MS = 2_000;
const MOST_SAMPLES = 600;
const SAMPLE_MS = 1_500;
/** How often the past is asked for anew: the figures that the server keeps. */
const PAST_MS = 60_000;

/** @type {Set<(snapshot: Snapshot) => void>} */
const watchers = new Set();
/** @type {EventSource|null} */
let source = null;
/** @type {ReturnType<typeof setTimeout>|undefined} */
let timer;
/** @type {Snapshot|null} */
let latest = null;
/** @type {Map<string, Queue>} */
let queues = new Map();
/** @type {{now_ms: number, rates: Record<string, number>}[]} */
let samples = [];
/** Those of the last hour before, from the server. @type {{now_ms: number, rates: Record<string, number>}[]} */
let past = [];
let isVirtual = false;
let heardAt = 0;

/**
 * Call with each snapshot, and at once with the latest one, until the signal is aborted.
 * @param {(snapshot: Snapshot) => void} watcher
 * @param {AbortSignal} signal
 */
export function watch(watcher, signal) {
  watchers.add(watcher);
  signal.addEventListener('abort', () => watchers.delete(watcher));
  if (latest?.queues) watcher(latest);
}

/** Rates a second in the last hour of the queue manager, the oldest first; the latest each second. */
export function history() {
  const known_ms = past.at(-1)?.now_ms ?? 0;
  return [...past, ...samples.filter(({ now_ms }) => now_ms > known_ms)];
}

/** The time of the queue manager, whose clock may be another than the browser's. */
export function now() {
  if (!latest) return Date.now();
  return latest.now_ms + (isVirtual ? 0 : performance.now() - heardAt);
}

/** Begin again, as with another queue manager or user. */
export function restart() {
  latest = null;
  queues = new Map();
  samples = [];
  past = [];
  look();
}

/** Follow the choice of a queue manager, and whether the page is seen. */
export function start() {
  // A browser has six connections to a server: pages that nobody sees must not hold them all.
  document.addEventListener('visibilitychange', look);
  hear('manager', restart);
  hear('signedout', stop);
  setInterval(() => source && lookBack(), PAST_MS);
  restart();
}

function stop() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

function look() {
  stop();
  if (document.hidden || !session.user) return;
  const mine = (source = new EventSource(here('events')));
  const take = (/** @type {string} */ name, /** @type {(told: any) => void} */ with_) =>
    mine.addEventListener(name, (event) => mine === source && with_(JSON.parse(/** @type {MessageEvent} */ (event).data)));
  take('overview', takeOverview);
  take('queues', takeQueues);
  take('gone', (told) => told.queues.forEach((/** @type {string} */ name) => queues.delete(name)));
  mine.onopen = () => tell('found');
  mine.onerror = () => mine === source && lose();
  lookBack();
  // It does not change while a server runs.
  ask('GET', '/mayfly/v1/clock').then((told) => (isVirtual = told.is_virtual), () => {});
}

/** Ask for the last hour, which the server has kept; without an answer it stays as it was. */
async function lookBack() {
  const manager = session.manager;
  const found = await ask('GET', here('figures'), { query: { over: 'hour' } }).catch(() => null);
  if (found && manager === session.manager) past = found.steps.map((step) => ({ now_ms: step.start_ms + found.step_ms, rates: ratesOf(step) }));
  show();
}

/** The rates of a step, by the names of events. @param {Record<string, number>} step */
function ratesOf(step) {
  const each_s = (/** @type {string} */ figure) => (1_000 * step[figure]) / Math.max(1, step.covered_ms);
  return { put_per_s: each_s('put_count'), got_per_s: each_s('got_count'), expired_per_s: each_s('expired_count'), released_per_s: each_s('released_count') };
}

/** Ask why there are no events, which an EventSource does not tell, and begin again. */
async function lose() {
  stop();
  tell('stale');
  try {
    await ask('GET', here('queues'), { query: { limit: 1 } });
    timer = setTimeout(look, RETRY_MS);
  } catch (error) {
    const isGone = error instanceof ServerLost || (error instanceof Problem && error.status >= 500);
    if (!isGone) return fail(error);
    // It has given the queue manager up: the page then is that of a standby, or of another one.
    if (error instanceof Problem && error.content.role === 'standby') return location.reload();
    tell('lost');
    timer = setTimeout(lose, RETRY_MS);
  }
}

/** @param {any} told */
function takeOverview(told) {
  heardAt = performance.now();
  latest = { ...told, queues };
  if (told.rates) note(told.now_ms, told.rates);
  show();
}

/** @param {{whole: boolean, queues: Queue[]}} told */
function takeQueues(told) {
  if (told.whole) queues = new Map();
  for (const queue of told.queues) queues.set(queue.name, queue);
  if (latest) latest.queues = queues;
  show();
}

/** Call the watchers once, whatever number of events came together. */
let isDue = false;
function show() {
  if (isDue) return;
  isDue = true;
  queueMicrotask(() => {
    isDue = false;
    if (latest) for (const watcher of watchers) watcher(latest);
  });
}

/** Keep rates. Nothing is told while nothing changes: then the rates of the look before hold. */
function note(/** @type {number} */ now_ms, /** @type {Record<string, number>} */ rates) {
  const last = samples.at(-1);
  if (last && now_ms - last.now_ms > SAMPLE_MS) samples.push({ now_ms: now_ms - 1_000, rates: last.rates });
  samples.push({ now_ms, rates });
  samples = samples.slice(-MOST_SAMPLES);
}
