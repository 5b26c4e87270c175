/** Keys of all pages: / searches, g and a letter goes to the first row of a page, ? shows them all. */
import { byId, h } from './dom.js';
import { open } from './dialog.js';
import { closeNewest } from './notices.js';
import { go, to } from './router.js';

/**
 * @param {{page: string, title: string, key: string}[]} pages
 * @param {() => boolean} isOpen false while nobody is signed in
 */
export function listen(pages, isOpen) {
  let isBegun = false;
  /** Ends the wait for the first row of a page. */
  let waiting = new AbortController();
  // Whoever does something else is not called away by a row that comes late.
  for (const name of ['pointerdown', 'keydown']) document.addEventListener(name, () => waiting.abort(), { capture: true });
  document.addEventListener('keydown', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || !isOpen() || document.querySelector('dialog[open]')) return;
    if (target.closest('input, select, textarea')) {
      if (event.key === 'Escape') target.blur();
      else if (event.key === 'ArrowDown' && target.matches('main input[type=search]')) focusFirstRow();
      else return;
      event.preventDefault();
      return;
    }
    const wanted = isBegun ? pages.find(({ key }) => key === event.key) : undefined;
    isBegun = false;
    if (wanted) {
      waiting = new AbortController();
      const before = location.hash === to([wanted.page]) ? [] : [...byId('main').querySelectorAll('.table')];
      go([wanted.page]);
      awaitFirstRow(before, waiting.signal);
    } else if (event.key === 'g') isBegun = true;
    else if (event.key === '/') toSearch();
    else if (event.key === '?') help(pages);
    else if (event.key === 'Escape') closeNewest();
    else return;
    event.preventDefault();
  });
}

/** Give the first row of the page the focus; false while it has none. @param {Element[]} [others] tables that do not count */
function focusFirstRow(others = []) {
  const tables = [...byId('main').querySelectorAll('.table')].filter((each) => !others.includes(each));
  const row = /** @type {HTMLElement|null|undefined} */ (tables.map((each) => each.querySelector('tbody tr')).find(Boolean));
  row?.focus();
  return Boolean(row);
}

/** Do so when the page has a row. @param {Element[]} before the tables of the page that is left @param {AbortSignal} signal */
function awaitFirstRow(before, signal) {
  const look = new MutationObserver(() => focusFirstRow(before) && look.disconnect());
  look.observe(byId('main'), { childList: true, subtree: true });
  signal.addEventListener('abort', () => look.disconnect());
  if (focusFirstRow(before)) look.disconnect();
}

/** Show all keys. @param {{title: string, key: string}[]} pages */
export function help(pages) {
  const row = ([keys, text]) => [h('span', {}, keys.split(' ').map((key) => [h('kbd', {}, key), ' '])), h('span', {}, text)];
  const general = [['/', 'search'], ['?', 'these keys'], ['↑ ↓', 'rows of a table'], ['↓', 'from a filter to its rows'], ['Enter', 'open a row'], ['Space', 'choose a row'], ['Esc', 'close']];
  const line = [['← →', 'move the timeline'], ['+ −', 'zoom it'], ['0', 'all of it']];
  return open('Keys', (close) => [
    h('div', { class: 'keys' }, [...general, ...line, ...pages.filter(({ key }) => key).map(({ key, title }) => [`g ${key}`, title])].map(row)),
    h('div', { class: 'tools' }, h('button', { type: 'button', class: 'main', autofocus: true, onclick: () => close(null) }, 'Close')),
  ]);
}

/** To the search, whose old text the first letter replaces. */
function toSearch() {
  const input = /** @type {HTMLInputElement|null} */ (document.getElementById('search'));
  input?.focus();
  input?.select();
}
