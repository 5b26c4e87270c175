/** A form that puts a message, with its delay and lifetime in words. */
import { ask, Problem } from '../api.js';
import { fill, h } from '../dom.js';
import { moment } from '../format.js';
import { now } from '../live.js';
import { newest } from '../newest.js';
import { fail, say } from '../notices.js';
import { go, to } from '../router.js';
import { here } from '../session.js';

/** @param {HTMLElement} main @param {{args: string[], signal: AbortSignal}} place */
export async function show(main, { args: [queue], signal }) {
  const line = (/** @type {string} */ label, /** @type {string} */ name, /** @type {string} */ hint, more = {}) =>
    h('label', { class: 'line' }, h('span', {}, label), h('input', { name, placeholder: hint, autocomplete: 'off', spellcheck: 'false', oninput: foresee, ...more }));
  const told = h('p', { class: 'quiet', role: 'status' });
  const properties = h('textarea', { name: 'properties', rows: '2', placeholder: 'order=4242, one a line', spellcheck: 'false' });
  const form = /** @type {HTMLFormElement} */ (h('form', { class: 'panel stack put', onsubmit: submit },
    h('label', { class: 'line' }, h('span', {}, 'Text'), h('textarea', { name: 'text', rows: '6', spellcheck: 'false', autofocus: true })),
    line('Delay', 'delay', 'none, or: in 3 days'), line('Lifetime', 'lives', 'for ever, or: lives 1 h'), told,
    h('label', { class: 'line' }, h('span', {}, 'Properties'), properties),
    line('Priority', 'priority', 'of the queue', { type: 'number', min: '0', max: '9' }),
    h('label', { class: 'line' }, h('span', {}, 'Persistence'), h('select', { name: 'persistent' }, [['', 'of the queue'], ['yes', 'persistent'], ['no', 'not persistent']].map(([value, text]) => h('option', { value }, text)))),
    line('CorrelId', 'correl_id', 'hexadecimal'), line('Reply to', 'reply_to_q', 'queue'),
    h('div', { class: 'tools' }, h('button', { type: 'submit', class: 'main' }, 'Put the message'), h('a', { href: to(['messages', queue]) }, 'Leave it'))));
  main.append(h('div', { class: 'page-head' }, h('h1', {}, `Put a message on ${queue}`)), form);
  const nextSignal = newest(signal);
  /** @type {HTMLElement|null} */ (form.querySelector('textarea'))?.focus();

  function bodyOf() {
    const { priority, persistent, properties: lines, ...texts } = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
    const pairs = lines.split('\n').filter((each) => each.trim()).map((each) => {
      const place = each.indexOf('=');
      if (place < 1) throw new Error(`Property ${each.trim()} is not name=value.`);
      return [each.slice(0, place).trim(), each.slice(place + 1).trim()];
    });
    return {
      ...texts, properties: Object.fromEntries(pairs),
      ...(priority && { priority: Number(priority) }), ...(persistent && { persistent: persistent === 'yes' }),
    };
  }

  /** Tell the times of the message before it is put. */
  async function foresee() {
    try {
      const times = await ask('POST', here('queues', queue, 'messages'), { body: { ...bodyOf(), dry_run: true }, signal: nextSignal() });
      const isLate = times.deliver_at_ms > times.put_ms;
      fill(told, isLate ? ['Can be got from ', moment(times.deliver_at_ms, now())] : 'Can be got at once',
        times.expire_at_ms === null ? ', and never expires.' : [', expires ', moment(times.expire_at_ms, now()), '.']);
      told.classList.remove('bad');
    } catch (error) {
      if (signal.aborted || /** @type {any} */ (error).name === 'AbortError') return;
      fill(told, error instanceof Problem ? error.said : String(/** @type {Error} */ (error).message));
      told.classList.add('bad');
    }
  }

  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    try {
      const put = await ask('POST', here('queues', queue, 'messages'), { body: bodyOf() });
      say(`Message put on ${put.queue}.`, { action: { label: 'Its trace', run: () => go(['trace', put.msg_id]) } });
      go(['messages', queue]);
    } catch (error) {
      if (error instanceof Problem) fail(error);
      else say(/** @type {Error} */ (error).message, { problem: true });
    }
  }
}
