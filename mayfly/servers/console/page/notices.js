/** Messages for the operator: what was done, what failed, and that the server is lost. */
import { Problem, ServerLost } from './api.js';
import { byId, h } from './dom.js';
import { hear } from './signals.js';

const STAYS_MS = 12_000;
const MOST = 4;

/**
 * Show a message at the corner; it is read aloud.
 * @param {string} text
 * @param {{problem?: boolean, action?: {label: string, run: () => void}}} [more]
 */
export function say(text, { problem = false, action } = {}) {
  const notice = h(
    'div',
    { class: `notice${problem ? ' problem' : ''}` },
    h('span', {}, text),
    action && h('button', { type: 'button', onclick: () => (notice.remove(), action.run()) }, action.label),
    h('button', { type: 'button', class: 'plain', 'aria-label': 'Close message', onclick: () => notice.remove() }, '✕'),
  );
  const notices = byId('notices');
  while (notices.children.length >= MOST) notices.firstElementChild?.remove();
  notices.append(notice);
  byId('spoken').textContent = text;
  // A failure stays until it is closed, and what can be undone stays in one line.
  if (!problem) setTimeout(() => (action ? notice.classList.add('folded') : notice.remove()), STAYS_MS);
}

/** Close the newest message. */
export const closeNewest = () => byId('notices').lastElementChild?.remove();

/** Show a failure; a lost server has its banner already, and an abort is nobody's business. */
export function fail(/** @type {any} */ error) {
  if (error instanceof ServerLost || error?.name === 'AbortError') return;
  if (error instanceof Problem && error.status === 401) return;
  say(error instanceof Problem ? error.said : String(error), { problem: true });
}

/** A failure as part of a page. @param {any} error */
export const problemPanel = (error) => h('p', { class: 'panel error', role: 'alert' }, error instanceof Problem ? error.said : String(error));

/** Show the banner while the server cannot be reached. */
export function watchServer() {
  const banner = byId('banner');
  hear('lost', () => {
    if (banner.hidden) banner.textContent = 'The server does not answer. What you see is from before; it is tried again every few seconds.';
    banner.hidden = false;
  });
  hear('found', () => {
    if (!banner.hidden) byId('spoken').textContent = 'The server answers again.';
    banner.hidden = true;
  });
}
