/** Numbers, times and states as people read them. */
import { h } from './dom.js';

const SECOND = 1_000;
const UNITS = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', SECOND]];
const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** A whole number in groups: 12,345. @param {number} value */
export const count = (value) => grouped.format(value);

/** A number with its thing: "1 message", "12 messages". @param {number} value @param {string} thing */
export const counted = (value, thing) => `${count(value)} ${thing}${value === 1 ? '' : 's'}`;

/** A rate a second: "0", "0.4", "12", "1,234". @param {number} value */
export const rate = (value) => (value > 0 && value < 10 ? value.toFixed(1) : count(value));

/**
 * A duration in its two largest units: "2 d 4 h", "3 min 20 s", "1.2 s", "15 ms".
 * @param {number} ms
 */
export function duration(ms) {
  const whole = Math.abs(Math.round(ms));
  const sign = ms < 0 ? '−' : '';
  if (whole < SECOND) return `${sign}${whole} ms`;
  if (whole < 10 * SECOND) return `${sign}${(whole / SECOND).toFixed(1).replace('.0', '')} s`;
  const first = UNITS.findIndex(([, size]) => whole >= size);
  const [unit, size] = UNITS[first];
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((whole % size) / next[1]) : 0;
  return `${sign}${count(Math.floor(whole / size))} ${unit}${rest ? ` ${rest} ${next[0]}` : ''}`;
}

/** "in 2 d 4 h", "5 s ago", "now". @param {number} at_ms @param {number} now_ms */
export function relative(at_ms, now_ms) {
  const ahead = at_ms - now_ms;
  if (Math.abs(ahead) < SECOND) return 'now';
  return ahead > 0 ? `in ${duration(ahead)}` : `${duration(-ahead)} ago`;
}

const pad = (/** @type {number} */ value, width = 2) => String(value).padStart(width, '0');

/** A moment in the zone of the browser: "2026-11-23 08:41:02". @param {number} ms */
export function local(ms) {
  const at = new Date(ms);
  return `${day(at)} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** @param {Date} at */
const day = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;

/** A moment in UTC to the millisecond. @param {number} ms */
export const utc = (ms) => new Date(ms).toISOString().replace('T', ' ').replace('Z', ' UTC');

/**
 * A moment in local time, with UTC as its title; "never" for null.
 * @param {number|null} ms
 * @param {number} [now_ms] with it the distance follows
 * @returns {HTMLElement}
 */
export function moment(ms, now_ms) {
  if (ms === null || ms === undefined) return h('span', { class: 'quiet' }, 'never');
  const far = now_ms === undefined ? null : h('span', { class: 'quiet' }, ` · ${relative(ms, now_ms)}`);
  return h('time', { datetime: new Date(ms).toISOString(), title: utc(ms) }, local(ms), far);
}

/** The moments of a text, which are in UTC, in local time. @param {string} text @returns {any[]} */
export function withMoments(text) {
  return text.split(/(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?)/).map((part, index) => (index % 2 ? moment(Date.parse(`${part.replace(' ', 'T')}Z`)) : part));
}

/** Bytes: "12 B", "3.4 KiB". @param {number} value */
export function bytes(value) {
  if (value < 1024) return `${value} B`;
  const power = Math.min(3, Math.floor(Math.log2(value) / 10));
  return `${(value / 1024 ** power).toFixed(1)} ${['', 'KiB', 'MiB', 'GiB'][power]}`;
}

/** The kinds of states that have a shape of their own, by the words of the engine. */
const KINDS = {
  staged: 'waiting', delayed: 'waiting',
  live: 'live', available: 'live',
  uncommitted: 'uncommitted',
  locked: 'locked', claimed: 'locked',
  expired_present: 'expired', expired: 'expired',
  dead_lettered: 'dead', discarded: 'dead', lost_at_restart: 'dead',
};
const WORDS = {
  staged: 'waiting', expired_present: 'expired, still there', dead_lettered: 'dead-lettered',
  lost_at_restart: 'lost at restart',
};

/** The word of a state as people read it. @param {string} word */
export const stateWord = (word) => WORDS[word] ?? word.replaceAll('_', ' ');

/** The kind of a state: its shape and colour. @param {string} word */
export const stateKind = (word) => KINDS[word] ?? 'ended';

/** A state with its shape. @param {string} word @param {string} [label] */
export const state = (word, label) => h('span', { class: `state ${stateKind(word)}` }, label ?? stateWord(word));

/** An id in hexadecimal without the zeros at its end, whole as its title. @param {string} hex */
export function id(hex) {
  const short = hex.replace(/(00)+$/, '') || '00';
  const shown = short.length > 20 ? `${short.slice(0, 8)}…${short.slice(-8)}` : short;
  return h('span', { class: 'id', title: hex }, shown);
}
