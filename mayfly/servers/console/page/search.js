/** The search of the bar: an id leads to its trace, a queue to the queue, a property or text to messages. */
import { ask } from './api.js';
import { h } from './dom.js';
import { fail } from './notices.js';
import { go } from './router.js';
import { here } from './session.js';

const ID = /^(?:ID:)?([0-9a-fA-F]{2}){1,24}$/;

/** Other texts are no name of a queue. */
const NAME = /^[A-Za-z0-9._/%]{1,48}$/;

/** Digits of a whole id. */
const WHOLE = 48;

/** The form with the field. */
export function search() {
  const input = h('input', {
    id: 'search', type: 'search', placeholder: 'Id, queue, name=value or text', 'aria-label': 'Search for an id, a queue, name=value or text',
    autocomplete: 'off', spellcheck: 'false',
  });
  const find = (/** @type {Event} */ event) => {
    event.preventDefault();
    const text = /** @type {HTMLInputElement} */ (input).value.trim();
    if (text) lead(text).catch(fail);
  };
  return h('form', { class: 'search', role: 'search', onsubmit: find }, input, h('kbd', { 'aria-hidden': 'true' }, '/'));
}

/** @param {string} text */
async function lead(text) {
  if (text.length < WHOLE && NAME.test(text) && (await isQueue(text))) go(['queue', text]);
  else if (ID.test(text)) go(['trace', text.replace(/^ID:/, '').toLowerCase()]);
  else go(['find'], { text });
}

/** @param {string} name */
async function isQueue(name) {
  try {
    await ask('GET', here('queues', name));
    return true;
  } catch (error) {
    if (/** @type {any} */ (error).status === 404) return false;
    throw error;
  }
}
