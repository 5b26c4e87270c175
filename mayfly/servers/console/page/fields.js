/** Fields for durations and moments. */
import { h } from './dom.js';

const UNITS = [['s', 1_000], ['min', 60_000], ['h', 3_600_000], ['d', 86_400_000]];

/** A number with its unit. @param {string} label @param {number} value @param {string} unit */
export function durationField(label, value = 1, unit = 'h') {
  const number = /** @type {HTMLInputElement} */ (h('input', { type: 'number', min: '0', step: 'any', value, 'aria-label': label, class: 'short' }));
  const choice = /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': `${label}, unit` }, UNITS.map(([name]) => h('option', { selected: name === unit }, name))));
  const size = () => Number(UNITS.find(([name]) => name === choice.value)?.[1]);
  return { element: h('span', { class: 'tools' }, number, choice), ms: () => Math.round(Number(number.value) * size()) };
}

/** A moment in local time. @param {string} label @param {number} ms */
export function momentField(label, ms) {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  const input = /** @type {HTMLInputElement} */ (h('input', { type: 'datetime-local', step: '1', value: at.toISOString().slice(0, 19), 'aria-label': label }));
  return { element: input, ms: () => new Date(input.value).getTime() };
}
