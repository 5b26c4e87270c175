/** Dialogs: a confirmation that says what will happen, and others. Esc closes them. */
import { h } from './dom.js';

/**
 * Open a dialog with content; it is removed when it closes.
 * @param {string} title
 * @param {(close: (value: any) => void) => any} content
 * @returns {Promise<any>} what it was closed with, null for Esc
 */
export function open(title, content) {
  return new Promise((resolve) => {
    const heading = h('h2', { id: 'dialog-title' }, title);
    const dialog = /** @type {HTMLDialogElement} */ (h('dialog', { 'aria-labelledby': 'dialog-title' }));
    let result = null;
    const close = (/** @type {any} */ value) => {
      result = value;
      dialog.close();
    };
    dialog.append(h('div', { class: 'stack' }, heading, content(close)));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * Ask before something is done. The harmless button has the focus.
 * @param {{title: string, effect: any, action: string, destroys?: boolean}} asked
 * @returns {Promise<boolean>}
 */
export async function confirm({ title, effect, action, destroys = false }) {
  const answer = await open(title, (close) => [
    h('div', {}, effect),
    h(
      'div',
      { class: 'tools' },
      h('button', { type: 'button', autofocus: true, onclick: () => close(false) }, 'Leave it'),
      h('button', { type: 'button', class: `main${destroys ? ' destroys' : ''}`, onclick: () => close(true) }, action),
    ),
  ]);
  return answer === true;
}
