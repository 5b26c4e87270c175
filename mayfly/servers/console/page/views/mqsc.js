/** MQSC as on a terminal: completion from the model, a history, and replies as `mayfly mqsc` gives. */
import { ask } from '../api.js';
import { fill, h } from '../dom.js';
import { newest } from '../newest.js';
import { fail, problemPanel } from '../notices.js';
import { here } from '../session.js';

const KEPT = 'mayfly.mqsc';
const MOST_KEPT = 200;
const MOST_OFFERED = 24;
const CONTINUED = /[+-]\s*$/;

/** @param {HTMLElement} main @param {{signal: AbortSignal}} place */
export async function show(main, { signal }) {
  const box = /** @type {HTMLTextAreaElement} */ (h('textarea', {
    id: 'mqsc-box', rows: 3, spellcheck: 'false', autocapitalize: 'none', autocomplete: 'off', 'aria-label': 'MQSC commands', 'aria-describedby': 'mqsc-keys',
    placeholder: 'DISPLAY QLOCAL(*) WHERE(CURDEPTH GT 0)', oninput: () => offer().catch(fail), onkeydown: keys,
  }));
  const words = h('div', { class: 'tools words', role: 'group', 'aria-label': 'What may come next' });
  const answers = h('div', { class: 'stack', role: 'log', 'aria-label': 'Replies' });
  const button = /** @type {HTMLButtonElement} */ (h('button', { type: 'submit', class: 'main' }, 'Run'));
  const nextSignal = newest(signal);
  /** Commands of before, the oldest first, and the place in them; the last place is what is being typed. */
  const past = keptCommands();
  let at = past.length;
  let typing = '';
  let isTabFree = false;
  /** @type {{word: string, candidates: string[]}} */ let offered = { word: '', candidates: [] };

  async function offer() {
    isTabFree = false;
    const typed = box.value.slice(0, box.selectionStart);
    offered = typed.trim() ? await ask('GET', here('mqsc', 'words'), { query: { typed: typed.slice(-4_000) }, signal: nextSignal() }) : { word: '', candidates: [] };
    const shown = offered.candidates.slice(0, MOST_OFFERED);
    const rest = offered.candidates.length - shown.length;
    fill(words, shown.map((word) => h('button', { type: 'button', tabindex: '-1', onclick: () => take(word) }, word.trim())), rest > 0 && h('span', { class: 'quiet' }, `and ${rest} more`));
  }

  /** Put a word in the place of the one that is typed. @param {string} word */
  function take(word) {
    const end = box.selectionStart;
    box.setRangeText(word, end - offered.word.length, end, 'end');
    box.focus();
    offer().catch(fail);
  }

  /** Show a command of before, or again what was being typed. @param {number} step */
  function recall(step) {
    if (at === past.length) typing = box.value;
    at = Math.max(0, Math.min(past.length, at + step));
    box.value = past[at] ?? typing;
    box.setSelectionRange(box.value.length, box.value.length);
    offer().catch(fail);
  }

  /** @param {KeyboardEvent} event */
  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const [before, behind] = [box.value.slice(0, box.selectionStart), box.value.slice(box.selectionEnd)];
    if (event.key === 'Enter' && !event.shiftKey && !CONTINUED.test(before)) run().catch(fail);
    else if (event.key === 'Tab' && !event.shiftKey && !isTabFree && offered.candidates.length && box.value.trim()) take(offered.candidates[0]);
    else if (event.key === 'ArrowUp' && !before.includes('\n') && past.length) recall(-1);
    else if (event.key === 'ArrowDown' && !behind.includes('\n') && at < past.length) recall(1);
    else if (event.key === 'Escape') {
      // From here Tab leaves the box; a second Esc does so too.
      if (isTabFree) return;
      isTabFree = true;
      fill(words);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  async function run() {
    const script = box.value.trim();
    if (!script || button.disabled) return;
    button.disabled = true;
    try {
      const told = await ask('POST', here('mqsc'), { body: { script }, signal });
      answers.prepend(h('pre', { class: `panel reply${told.ok ? '' : ' problem'}`, tabindex: '0', role: 'region', 'aria-label': `Reply to ${script.split('\n')[0]}` }, told.text));
      remember(script, told);
      box.value = '';
      await offer();
    } catch (problem) {
      if (!signal.aborted) answers.prepend(problemPanel(problem));
    } finally {
      button.disabled = false;
      box.focus();
    }
  }

  /** A secret is never kept; a command that is wrong may hold one, and is kept as long as the page. @param {string} script @param {{is_valid: boolean, has_secret: boolean}} told */
  function remember(script, { is_valid, has_secret }) {
    if (!has_secret && past.at(-1) !== script) past.push(script);
    at = past.length;
    typing = '';
    if (is_valid && !has_secret) keep(script);
  }

  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'MQSC'), h('span', { class: 'quiet' }, 'Replies are those of mayfly mqsc; HELP tells commands.'),
      h('div', { class: 'tools' }, h('button', { type: 'button', onclick: () => (past.splice(0), (at = 0), localStorage.removeItem(KEPT)) }, 'Forget the history'))),
    h('form', { class: 'panel stack', onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), run().catch(fail)) },
      box, words,
      h('div', { class: 'tools' }, button, h('span', { class: 'quiet', id: 'mqsc-keys' }, 'Enter runs, Shift+Enter begins a line. Tab completes, Esc lets it go on. ↑ and ↓ are the history.'))),
    answers);
  box.focus();
}

/** @returns {string[]} the oldest first */
function keptCommands() {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT) ?? '[]');
    return Array.isArray(found) ? found.filter((each) => typeof each === 'string') : [];
  } catch {
    return [];
  }
}

/** Keep a command in the storage of the browser. @param {string} script */
function keep(script) {
  const kept = keptCommands().filter((each) => each !== script);
  localStorage.setItem(KEPT, JSON.stringify([...kept, script].slice(-MOST_KEPT)));
}
