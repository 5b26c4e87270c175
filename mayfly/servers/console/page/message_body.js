/** The data of a message as text, JSON, XML or hexadecimal, in a character set that is chosen. */
import { fill, h } from './dom.js';
import { bytes } from './format.js';

/** Character sets that messages often have, by CCSID. */
const CCSIDS = { 1208: 'UTF-8', 819: 'Latin-1', 850: 'PC Latin-1', 1252: 'Windows', 500: 'EBCDIC 500', 37: 'EBCDIC 37', 273: 'EBCDIC 273', 1047: 'EBCDIC 1047', 1200: 'UTF-16' };
const WIDTH = 16;
const FORMS = { text: 'Text', json: 'JSON', xml: 'XML', hex: 'Hexadecimal' };

/**
 * @typedef {{data_bytes: number, from_byte: number, base64: string, text: string|null, is_exact: boolean, ccsid: number, codec: string|null, format: string}} Data
 * @param {Data} data
 * @param {(ccsid: number) => Promise<Data>} load asks for the same data in another character set
 */
export function bodyView(data, load) {
  const shown = h('pre', { class: 'body', tabindex: '0', role: 'region', 'aria-label': 'Content' });
  const told = h('span', { class: 'quiet', role: 'status' });
  let form = formOf(data);
  const choices = Object.entries(FORMS).map(([word, label]) => h('button', { type: 'button', 'data-form': word, onclick: () => (form = word, draw()) }, label));
  const known = { ...CCSIDS, ...(data.ccsid in CCSIDS ? {} : { [data.ccsid]: data.codec ?? 'not known here' }) };
  const ccsid = /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': 'Character set', onchange: again },
    Object.entries(known).map(([number, name]) => h('option', { value: number, selected: Number(number) === data.ccsid }, `${number} ${name}`))));

  async function again() {
    data = await load(Number(ccsid.value));
    draw();
  }

  function draw() {
    const [text, why] = spelled(data, form);
    fill(shown, text || ' ');
    for (const button of choices) button.setAttribute('aria-pressed', String(button.dataset.form === form));
    const part = bytesOf(data.base64).length;
    const cut = part < data.data_bytes ? `first ${bytes(part)} of ` : '';
    const unread = form !== 'hex' && data.text !== null && !data.is_exact ? ' Some bytes are no characters of this set.' : '';
    fill(told, `${cut}${bytes(data.data_bytes)}${data.format ? `, Format ${data.format}` : ''}.${why ? ` ${why}` : ''}${unread}`);
  }

  draw();
  return h('div', { class: 'stack' }, h('div', { class: 'tools' }, h('span', { class: 'tools', role: 'group', 'aria-label': 'Form' }, choices), ccsid, told), shown);
}

/** The form that fits the data best. @param {Data} data */
function formOf(data) {
  const begins = (data.text ?? '').trimStart()[0];
  if (data.text === null || !data.is_exact) return 'hex';
  if ((begins === '{' || begins === '[') && !spelled(data, 'json')[1]) return 'json';
  return begins === '<' && !spelled(data, 'xml')[1] ? 'xml' : 'text';
}

/** The data in a form, and why it is not what was asked for. @param {Data} data @param {string} form @returns {[string, string]} */
function spelled(data, form) {
  const text = data.text ?? '';
  if (form === 'hex') return [hex(bytesOf(data.base64), data.from_byte), ''];
  if (data.text === null) return ['', `The character set ${data.ccsid} is not known here.`];
  if (form === 'json') {
    try {
      return [JSON.stringify(JSON.parse(text), null, 2), ''];
    } catch (error) {
      return [text, `It is no JSON: ${/** @type {Error} */ (error).message}.`];
    }
  }
  if (form === 'xml') {
    const read = new DOMParser().parseFromString(text, 'application/xml');
    if (read.querySelector('parsererror')) return [text, 'It is no well-formed XML.'];
    return [indented(read.documentElement, 0), ''];
  }
  return [text, ''];
}

/** An element of XML with its children below it. @param {Element} element @param {number} depth @returns {string} */
function indented(element, depth) {
  const space = '  '.repeat(depth);
  const attributes = [...element.attributes].map(({ name, value }) => ` ${name}="${escaped(value).replaceAll('"', '&quot;')}"`).join('');
  const children = [...element.childNodes].filter((each) => each.nodeType === Node.ELEMENT_NODE || each.textContent?.trim());
  if (!children.length) return `${space}<${element.tagName}${attributes}/>`;
  if (children.every((each) => each.nodeType !== Node.ELEMENT_NODE)) {
    return `${space}<${element.tagName}${attributes}>${escaped(element.textContent ?? '').trim()}</${element.tagName}>`;
  }
  const inner = children.map((each) => (each instanceof Element ? indented(each, depth + 1) : `${space}  ${escaped(each.textContent ?? '').trim()}`));
  return [`${space}<${element.tagName}${attributes}>`, ...inner, `${space}</${element.tagName}>`].join('\n');
}

/** @param {string} text */
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** @param {string} base64 */
const bytesOf = (base64) => Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));

/** A dump: offset, bytes, and those that are printable. @param {Uint8Array} data @param {number} from */
function hex(data, from) {
  const lines = [];
  for (let place = 0; place < data.length; place += WIDTH) {
    const row = [...data.slice(place, place + WIDTH)];
    const digits = row.map((each) => each.toString(16).padStart(2, '0')).join(' ').padEnd(3 * WIDTH - 1);
    const text = row.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : '·')).join('');
    lines.push(`${(from + place).toString(16).padStart(6, '0')}  ${digits}  ${text}`);
  }
  return lines.join('\n');
}
