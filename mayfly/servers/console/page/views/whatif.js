/** What if: the lives of the ledger under other settings, and safe timeouts for a listener. */
import { ask } from '../api.js';
import { factList, field, fill, h } from '../dom.js';
import { durationField } from '../fields.js';
import { count, counted, duration } from '../format.js';
import { problemPanel } from '../notices.js';
import { outcomeBar, OUTCOMES } from '../outcome_bars.js';
import { here } from '../session.js';

const ASK_AGAIN_MS = 500;

/** @param {HTMLElement} main @param {{query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { query, signal }) {
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'What if'), h('span', { class: 'quiet' }, 'Experiments with the lives in the ledger. Nothing changes.')),
    part('Replay under other settings', 'Replay', replayFields(query), (body) => experiment('replay', body, signal), replayResult),
    part('Safe timeouts for a listener', 'Advise', adviceFields(query), (body) => experiment('advice', body, signal), adviceResult),
  );
}

/** @typedef {{elements: any[], body: () => object}} Fields */

/**
 * @param {string} title @param {string} action @param {Fields} fields
 * @param {(body: object) => Promise<any>} run @param {(told: any) => any} result
 */
function part(title, action, fields, run, result) {
  const place = h('div', { class: 'stack', role: 'status' });
  const button = /** @type {HTMLButtonElement} */ (h('button', { type: 'submit', class: 'main' }, action));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    fill(place, h('p', { class: 'quiet' }, 'It runs; that takes some seconds.'));
    try {
      const told = await run(fields.body());
      const cut = told.is_cut ? h('p', { class: 'quiet' }, 'Lives before the newest million are missing.') : null;
      fill(place, told.state === 'failed' ? h('p', { class: 'error' }, told.error) : result(told.result), cut);
    } catch (error) {
      fill(place, problemPanel(error));
    } finally {
      button.disabled = false;
    }
  };
  return h('section', { class: 'panel stack', 'aria-label': title }, h('h2', {}, title), h('form', { class: 'tools', onsubmit: submit }, fields.elements, button), place);
}

/** Begin an experiment and wait for its end. @param {string} kind @param {object} body @param {AbortSignal} signal */
async function experiment(kind, body, signal) {
  let told = await ask('POST', here(kind), { body, signal });
  while (told.state === 'running') {
    await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
    told = await ask('GET', here(kind, told.id), { signal });
  }
  return told;
}

/** @param {string} label @param {Record<string, any>} [more] */
const text = (label, more = {}) => /** @type {HTMLInputElement} */ (h('input', { 'aria-label': label, placeholder: label, autocomplete: 'off', ...more }));

/** @param {Record<string, any>} found without what is empty */
const given = (found) => Object.fromEntries(Object.entries(found).filter(([, value]) => value !== null && value !== ''));

/** A duration that may be left out. @param {string} label @param {string} unit @param {number|string} [value] */
function optional(label, unit, value = '') {
  const made = durationField(label, /** @type {any} */ (value), unit);
  const input = /** @type {HTMLInputElement} */ (made.element.querySelector('input'));
  return { element: h('span', { class: 'field' }, h('span', { class: 'quiet' }, label), made.element), ms: () => (input.value === '' ? null : made.ms()) };
}

/** @param {URLSearchParams} query @returns {Fields} */
function replayFields(query) {
  const queue = text('Queue, all if empty', { value: query.get('queue') ?? '' });
  const [cap, delay, life, service] = [optional('Cap', 's'), optional('Delay', 's'), optional('Life', 's'), optional('Service', 's')];
  const consumers = text('Consumers', { type: 'number', min: '1', class: 'short', placeholder: null });
  const body = () => {
    const setting = given({ cap_ms: cap.ms(), delay_ms: delay.ms(), life_ms: life.ms(), service_ms: service.ms(), consumers: consumers.value && Number(consumers.value) });
    return given({ settings: [setting], queue: queue.value.trim() });
  };
  return { elements: [queue, ...[cap, delay, life].map(({ element }) => element), field('Consumers', consumers), service.element], body };
}

/** @param {URLSearchParams} query @returns {Fields} */
function adviceFields(query) {
  const queue = text('Queue', { required: true, value: query.get('queue') ?? '' });
  const [longest, timeout, lifetime] = [optional('Longest on_message', 's', 15), optional('Receive timeout', 's', 110), optional('Transaction lifetime', 's', 120)];
  const body = () => {
    const lifetime_ms = lifetime.ms();
    return given({
      queue: queue.value.trim(), longest_on_message_ms: longest.ms(), receive_timeout_ms: timeout.ms(),
      total_tran_lifetime_timeout_s: lifetime_ms === null ? null : Math.round(lifetime_ms / 1_000),
    });
  };
  return { elements: [queue, longest.element, timeout.element, lifetime.element], body };
}

/** @param {any} result */
function replayResult({ queues, changed }) {
  const total = (/** @type {Record<string, number>} */ counts) => OUTCOMES.reduce((sum, word) => sum + (counts[word] ?? 0), 0);
  const most = Math.max(1, ...queues.flatMap((/** @type {any} */ { before, after }) => [total(before), total(after)]));
  const bars = queues.map((/** @type {any} */ { queue, before, after }) => [h('strong', {}, queue), outcomeBar(before, most, 'before'), outcomeBar(after, most, 'after')]);
  const turned = changed.turned.map((/** @type {any} */ one) => h('li', {}, `${one.outcome} → ${one.new_outcome === one.outcome ? 'the same, at another time' : one.new_outcome}: ${count(one.count)}`));
  return [h('div', { class: 'stack tight' }, bars), h('p', {}, `${counted(changed.count, 'message')} would end otherwise.`), h('ul', { class: 'plain' }, turned)];
}

/** @param {any} result */
function adviceResult({ is_safe, problems, recommended, reasons, before, after }) {
  const timeout = recommended.receive_timeout_ms;
  const share = (/** @type {any} */ outlook) => (outlook ? `${(100 * outlook.simulated.needless_share).toFixed(1)} % rolled back needlessly` : null);
  const setting = timeout === null ? 'none is safe' : `receive timeout ${duration(timeout)}, transaction lifetime ${recommended.total_tran_lifetime_timeout_s ?? ''} s`;
  return [
    h('p', { class: is_safe === false ? 'bad' : 'good' }, is_safe === null ? 'No receive timeout was given.' : is_safe ? 'The setting is safe.' : 'The setting is not safe.'),
    h('ul', { class: 'plain' }, problems.map((/** @type {string} */ each) => h('li', {}, each))),
    factList(['Recommended', setting], before && ['As set now', share(before)], after && ['As recommended', share(after)]),
    h('ul', { class: 'plain' }, reasons.map((/** @type {string} */ each) => h('li', { class: 'quiet' }, each))),
  ];
}
