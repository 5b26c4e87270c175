/** The MQSC that a change would be: shown below its form, and asked again when that changes. */
import { fill, h } from './dom.js';
import { newest } from './newest.js';

const WAITS_MS = 150;

/**
 * @param {(signal: AbortSignal) => Promise<string>} load
 * @param {(problem: any) => void} failed
 */
export function mqscPreview(load, failed) {
  const text = h('code');
  const element = h('pre', { class: 'mqsc', role: 'region', 'aria-label': 'In MQSC' }, text);
  const nextSignal = newest(new AbortController().signal);
  /** @type {ReturnType<typeof setTimeout>|undefined} */ let timer;

  /** @param {string} told */
  function show(told) {
    fill(text, told);
    // Tab stops here only if there is something to scroll.
    element.tabIndex = element.scrollHeight > element.clientHeight ? 0 : -1;
  }

  async function ask() {
    const signal = nextSignal();
    try {
      const found = await load(signal);
      if (!signal.aborted) show(found);
    } catch (problem) {
      if (signal.aborted) return;
      show('No command: a value is not right.');
      failed(problem);
    }
  }

  return {
    element,
    /** Show a text in its place, and no answer that is still to come. @param {string} told */
    say(told) {
      clearTimeout(timer);
      nextSignal();
      show(told);
    },
    /** Ask when nothing has changed for a moment. */
    ask() {
      clearTimeout(timer);
      nextSignal();
      timer = setTimeout(ask, WAITS_MS);
    },
  };
}
