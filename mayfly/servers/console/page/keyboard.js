/** Keys of all pages: / searches, g and a letter goes to a page, ? shows them all. */
import { h } from './dom.js';
import { open } from './dialog.js';
import { go } from './router.js';

/**
 * @param {{page: string, title: string, key: string}[]} pages
 * @param {() => boolean} isOpen false while nobody is signed in
 */
export function listen(pages, isOpen) {
  let isBegun = false;
  document.addEventListener('keydown', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || !isOpen() || document.querySelector('dialog[open]')) return;
    if (target.closest('input, select, textarea')) {
      if (event.key === 'Escape') target.blur();
      return;
    }
    const wanted = isBegun ? pages.find(({ key }) => key === event.key) : undefined;
    isBegun = false;
    if (wanted) go([wanted.page]);
    else if (event.key === 'g') isBegun = true;
    else if (event.key === '/') document.getElementById('search')?.focus();
    else if (event.key === '?') help(pages);
    else return;
    event.preventDefault();
  });
}

/** Show all keys. @param {{title: string, key: string}[]} pages */
export function help(pages) {
  const row = ([keys, text]) => [h('span', {}, keys.split(' ').map((key) => [h('kbd', {}, key), ' '])), h('span', {}, text)];
  const general = [['/', 'search'], ['?', 'these keys'], ['↑ ↓', 'rows of a table'], ['Enter', 'open a row'], ['Space', 'choose a row'], ['Esc', 'close']];
  const line = [['← →', 'move the timeline'], ['+ −', 'zoom it'], ['0', 'all of it']];
  return open('Keys', (close) => [
    h('div', { class: 'keys' }, [...general, ...line, ...pages.filter(({ key }) => key).map(({ key, title }) => [`g ${key}`, title])].map(row)),
    h('div', { class: 'tools' }, h('button', { type: 'button', class: 'main', autofocus: true, onclick: () => close(null) }, 'Close')),
  ]);
}
