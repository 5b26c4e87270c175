/** What is deleted for good is asked for by its name, with the MQSC that it would be. */
import { open } from './dialog.js';
import { h } from './dom.js';

/**
 * @param {{title: string, effect: any, name: string, action: string, command: string, purge?: {label: string, command: string}}} asked
 *   `purge` is a choice to delete more, with the command that it makes of it
 * @returns {Promise<{purge: boolean}|null>} null when nothing is wanted
 */
export function confirmByName({ title, effect, name, action, command, purge }) {
  return open(title, (close) => {
    const shown = h('code', {}, command);
    const typed = /** @type {HTMLInputElement} */ (h('input', { id: 'typed-name', autofocus: true, autocomplete: 'off', spellcheck: 'false', oninput: check }));
    const more = /** @type {HTMLInputElement} */ (h('input', { type: 'checkbox', onchange: () => (shown.textContent = more.checked && purge ? purge.command : command) }));
    const button = /** @type {HTMLButtonElement} */ (h('button', { type: 'submit', class: 'main destroys', disabled: true }, action));
    function check() {
      button.disabled = typed.value.trim() !== name;
    }
    return h('form', { onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), close({ purge: more.checked })) },
      h('div', { class: 'stack tight' }, effect),
      purge && h('label', { class: 'field' }, more, purge.label),
      h('pre', { class: 'mqsc', role: 'region', 'aria-label': 'In MQSC', tabindex: '0' }, shown),
      h('div', { class: 'attribute' }, h('label', { for: 'typed-name' }, 'Its name, to be sure'), typed),
      h('div', { class: 'tools' }, h('button', { type: 'button', onclick: () => close(null) }, 'Leave it'), button));
  });
}
