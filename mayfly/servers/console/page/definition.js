/** The attributes of an object; an administrator changes them, against the version that was shown. */
import { askWithTag } from './api.js';
import { open } from './dialog.js';
import { h } from './dom.js';
import { fail, say } from './notices.js';
import { whyNot } from './roles.js';
import { here } from './session.js';
import { dataTable } from './table.js';

/**
 * @param {string} kind as in MQSC, in lower case
 * @param {string} name
 * @param {AbortSignal} signal
 */
export async function definition(kind, name, signal) {
  const path = here('definitions', kind, name);
  const why = whyNot('administer');
  const find = /** @type {HTMLInputElement} */ (h('input', { type: 'search', 'aria-label': 'Find an attribute', placeholder: 'Find an attribute', oninput: draw }));
  const table = dataTable({
    label: 'Attributes', key: ({ keyword }) => keyword, empty: 'No attribute has such a name.', open: why ? undefined : change,
    columns: [
      { key: 'keyword', label: 'Attribute', value: ({ keyword }) => keyword.toUpperCase(), cell: ({ keyword }) => h('code', {}, keyword.toUpperCase()) },
      { key: 'value', label: 'Value', value: ({ value }) => String(value) },
    ],
  });
  let { content, etag } = await askWithTag('GET', path, { signal });

  function draw() {
    const part = find.value.trim().toLowerCase();
    const rows = Object.entries(content.attributes).map(([keyword, value]) => ({ keyword, value }));
    table.set(rows.filter(({ keyword }) => keyword.includes(part)));
  }

  /** @param {{keyword: string, value: string|number}} row */
  async function change({ keyword, value }) {
    const input = /** @type {HTMLInputElement} */ (h('input', { value, 'aria-label': keyword.toUpperCase(), autofocus: true }));
    const wanted = await open(`Change ${keyword.toUpperCase()} of ${name}`, (close) =>
      h('form', { onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), close(input.value)) },
        h('p', { class: 'quiet' }, `It is ${value === '' ? 'empty' : value} now.`), input,
        h('div', { class: 'tools' }, h('button', { type: 'button', onclick: () => close(null) }, 'Leave it'), h('button', { type: 'submit', class: 'main' }, 'Change'))));
    if (wanted === null || wanted === String(value)) return;
    const isNumber = typeof value === 'number' && /^-?\d+$/.test(wanted);
    await alter(keyword, isNumber ? Number(wanted) : wanted, () => alter(keyword, value));
  }

  /** @param {string} keyword @param {string|number} value @param {() => void} [undo] */
  async function alter(keyword, value, undo) {
    try {
      ({ content, etag } = await askWithTag('PATCH', path, { body: { attributes: { [keyword]: value } }, match: etag }));
      say(`${keyword.toUpperCase()} of ${name} is ${value === '' ? 'empty' : value}.`, undo ? { action: { label: 'Undo', run: undo } } : {});
    } catch (error) {
      fail(error);
      // Somebody else may have changed it: what is there now is shown.
      await askWithTag('GET', path).then((found) => ({ content, etag } = found), fail);
    }
    draw();
  }

  draw();
  return h('section', { class: 'stack', 'aria-label': 'Definition' },
    h('div', { class: 'page-head' }, h('h2', {}, 'Attributes'), h('span', { class: 'quiet' }, why ?? 'Enter or a click changes one.'), h('div', { class: 'tools' }, find)),
    table.element);
}
