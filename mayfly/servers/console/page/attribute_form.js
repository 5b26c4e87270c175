/** A form of the attributes of an object, made from the model of administration. */
import { ask, Problem } from './api.js';
import { open } from './dialog.js';
import { fill, h } from './dom.js';
import { count } from './format.js';
import { mqscPreview } from './mqsc_preview.js';
import { here } from './session.js';

/**
 * @typedef {{keyword: string, default: string|number, words: string[], low: number|null, high: number|null, max_bytes: number|null,
 *   unit: string, is_list: boolean, is_needed: boolean, is_fixed: boolean, is_secret: boolean, has_effect: boolean, meaning: string,
 *   names: string[]}} Attribute
 * @typedef {{name: string, like: string, attributes: Record<string, string|number>}} Given what the form holds: the attributes
 *   that it changes
 */

/**
 * Ask for attributes until they are saved or nothing is wanted; an error stands at its field.
 * @param {{title: string, action: string, kind: string, name?: string, type?: string, like?: string,
 *   present?: Record<string, string|number>, only?: string, command: (given: Given, signal: AbortSignal) => Promise<string>,
 *   save: (given: Given) => Promise<void>}} asked
 *   `present` are the values of an object that is altered, whose `name` is not asked for; `only` is its one attribute that is
 *   shown; `type` is the CHLTYPE or AUTHTYPE; `command` returns the MQSC that a change would be
 * @returns {Promise<boolean>} whether it was saved; rejected if the object was changed meanwhile
 */
export async function attributeForm({ title, action, kind, name = '', type = '', like = '', present, only, command, save }) {
  const { kinds } = await ask('GET', here('kinds'));
  const { types, typed_by } = kinds.find((/** @type {any} */ one) => one.kind === kind);
  const load = async (/** @type {string} */ word) => (await ask('GET', here('kinds', kind), { query: { type: word } })).attributes;
  let known = await load(type || types[0] || '');
  const answer = await open(title, (close) => {
    /** @type {Map<string, ReturnType<typeof fieldOf>>} */ let fields = new Map();
    const called = /** @type {HTMLInputElement} */ (h('input', { id: 'form-name', value: name, required: true, autocomplete: 'off', spellcheck: 'false', autofocus: true }));
    const model = /** @type {HTMLInputElement} */ (h('input', { id: 'form-like', value: like, autocomplete: 'off', spellcheck: 'false' }));
    const choice = /** @type {HTMLSelectElement} */ (h('select', { id: 'form-type', onchange: () => retype() }, types.map((/** @type {string} */ word) => h('option', { value: word, selected: word === type }, word))));
    const find = /** @type {HTMLInputElement} */ (h('input', { type: 'search', 'aria-label': 'Find an attribute', placeholder: 'Find an attribute', oninput: filter }));
    const every = /** @type {HTMLInputElement} */ (h('input', { type: 'checkbox', onchange: filter }));
    const list = h('div', { class: 'attributes' });
    const error = h('p', { class: 'error', role: 'alert' });
    const submit = /** @type {HTMLButtonElement} */ (h('button', { type: 'submit', class: 'main' }, action));
    const preview = mqscPreview((signal) => command(given(), signal), place);

    function draw() {
      const shown = known.filter((/** @type {Attribute} */ one) => (only ? one.keyword === only : one.keyword !== typed_by && !(present && one.is_fixed)));
      const typed = new Map([...fields].filter(([, { isChanged }]) => isChanged()).map(([keyword, { input }]) => [keyword, input.value]));
      shown.sort((/** @type {Attribute} */ a, /** @type {Attribute} */ b) => Number(b.is_needed) - Number(a.is_needed));
      fields = new Map(shown.map((/** @type {Attribute} */ one) => [one.keyword, fieldOf(one, present?.[one.keyword], only !== undefined)]));
      for (const [keyword, { input }] of fields) input.value = typed.get(keyword) ?? input.value;
      list.replaceChildren(...[...fields.values()].map(({ element }) => element));
      filter();
    }

    function filter() {
      const part = find.value.trim().toLowerCase();
      for (const [keyword, { element, attribute, input, isChanged }] of fields) {
        element.hidden = !isChanged() && !input.required && !(keyword.includes(part) && (attribute.has_effect || every.checked || only || part === keyword));
      }
    }

    async function retype() {
      try {
        known = await load(choice.value);
        draw();
        changed();
      } catch (problem) {
        place(problem);
      }
    }

    /** @returns {Given} */
    function given() {
      const attributes = Object.fromEntries([...fields].filter(([, { isChanged }]) => isChanged()).map(([keyword, { value }]) => [keyword, value()]));
      return { name: called.value.trim(), like: model.value.trim(), attributes: types.length && !present ? { [typed_by]: choice.value || types[0], ...attributes } : attributes };
    }

    function changed() {
      place(null);
      const { name: wanted, attributes } = given();
      submit.disabled = Boolean(present) && !Object.keys(attributes).length;
      if (submit.disabled) preview.say('Nothing is changed yet.');
      else if (!wanted) preview.say('It has no name yet.');
      else preview.ask();
    }

    /** Show an error at its field, or above the buttons; null takes errors away. @param {any} problem */
    function place(problem) {
      for (const { say } of fields.values()) say('');
      fill(error, '');
      if (!problem) return;
      const text = problem instanceof Problem ? problem.said : String(problem);
      const field = fields.get(problem.content?.attribute);
      if (!field) return fill(error, text);
      field.element.hidden = false;
      field.say(text);
    }

    const send = async (/** @type {Event} */ event) => {
      event.preventDefault();
      submit.disabled = true;
      try {
        await save(given());
        close(true);
      } catch (problem) {
        // Somebody else has changed the object: the form is about another one.
        if (present && problem instanceof Problem && problem.status === 412) return close(problem);
        place(problem);
        /** @type {HTMLElement|null} */ (list.querySelector('[aria-invalid]'))?.focus();
      } finally {
        submit.disabled = false;
      }
    };

    draw();
    changed();
    const line = (/** @type {string} */ label, /** @type {HTMLElement} */ input) => h('div', { class: 'attribute' }, h('label', { for: input.id }, label), input);
    return h('form', { onsubmit: send, oninput: changed },
      !present && [line('Name', called), types.length > 1 && line(typed_by.toUpperCase(), choice), line('Like, if any', model)],
      !only && h('div', { class: 'tools' }, find, h('label', { class: 'field' }, every, 'Those without effect here')),
      list, preview.element, error,
      h('div', { class: 'tools' }, h('button', { type: 'button', onclick: () => close(false) }, 'Leave it'), submit));
  });
  if (answer instanceof Problem) throw answer;
  return answer === true;
}

/**
 * The field of one attribute.
 * @param {Attribute} attribute @param {string|number|undefined} present @param {boolean} isFirst it has the focus
 */
function fieldOf(attribute, present, isFirst) {
  const { keyword, words, low, is_needed } = attribute;
  const id = `attribute-${keyword}`;
  const before = present === undefined ? '' : String(present);
  const usual = { id, 'aria-describedby': `${id}-hint`, autofocus: isFirst, required: is_needed && present === undefined };
  const isChoice = words.length > 0 && low === null;
  const input = /** @type {HTMLInputElement} */ (isChoice
    ? h('select', usual, present === undefined && h('option', { value: '' }, `${attribute.default} (default)`), words.map((word) => h('option', { value: word, selected: word === before }, word)))
    : h('input', { ...usual, value: before, type: attribute.is_secret ? 'password' : 'text', autocomplete: attribute.is_secret ? 'new-password' : 'off', spellcheck: 'false', placeholder: present === undefined ? attribute.default : null, list: attribute.names.length ? `${id}-names` : null }));
  const names = h('datalist', { id: `${id}-names` });
  if (attribute.names.length) input.addEventListener('focus', () => offer(names, attribute.names), { once: true });
  const error = h('span', { class: 'error' });
  const element = h('div', { class: 'attribute' },
    h('label', { for: id }, h('code', {}, keyword.toUpperCase())), input, attribute.names.length > 0 && names,
    h('span', { class: 'quiet', id: `${id}-hint` }, hintOf(attribute), error));
  return {
    element, attribute, input,
    isChanged: () => input.value !== before,
    value: () => (attribute.max_bytes === null && /^-?\d+$/.test(input.value) ? Number(input.value) : input.value),
    /** Show what is wrong with it, nothing for "". @param {string} text */
    say(text) {
      fill(error, text);
      if (text) input.setAttribute('aria-invalid', 'true');
      else input.removeAttribute('aria-invalid');
    },
  };
}

/** Most names that a field offers. */
const MOST_NAMES = 1_000;

/** Fill a list with the names of objects of some kinds; those that the user may not see are left out. @param {HTMLElement} list @param {string[]} kinds */
async function offer(list, kinds) {
  const asked = kinds.map(async (kind) => (kind === 'user'
    ? (await ask('GET', here('users'), { query: { limit: MOST_NAMES } })).users
    : (await ask('GET', here('definitions', kind), { query: { limit: MOST_NAMES } })).definitions));
  const found = (await Promise.allSettled(asked)).flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  list.replaceChildren(...found.map(({ name }) => h('option', { value: name })));
}

/** What an attribute means and may be. @param {Attribute} attribute */
function hintOf({ meaning, words, low, high, max_bytes, unit, is_list, is_secret, has_effect }) {
  const numbers = low !== null && `${count(low)} to ${count(/** @type {number} */ (high))} ${unit}`.trim();
  const values = [numbers, low !== null && words.join(', ')].filter(Boolean).join(', or ');
  const text = max_bytes !== null && !words.length && (is_list ? 'several, with commas between' : `at most ${count(max_bytes)} bytes`);
  return [meaning, values || text, is_secret && 'checked, and then forgotten', !has_effect && 'no effect here'].filter(Boolean).join('; ');
}
