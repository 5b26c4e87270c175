/** Requests to the resources of HTTP (docs/HTTP.md), and the failures that they answer with. */
import { tell } from './signals.js';

const REST = '/ibmmq/rest/v3';
const CSRF = 'ibm-mq-rest-csrf-token';

/** An answer that tells of a failure: problem+json, or IBM's form of it. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} detail
   * @param {{reason?: number, reasonName?: string, [more: string]: any}} [content]
   */
  constructor(status, detail, content = {}) {
    super(detail);
    this.status = status;
    this.reason = content.reason;
    this.reasonName = content.reasonName;
    this.content = content;
  }

  /** The detail with reason code and name. */
  get said() {
    const reason = this.reason ? ` (${this.reason} ${this.reasonName ?? ''})`.replace(' )', ')') : '';
    return this.message + reason;
  }
}

/** The server cannot be reached, or drains; the page says so once and tries again by itself. */
export class ServerLost extends Error {}

/**
 * Send a request and return the JSON of the answer, null without a body.
 * @param {string} method
 * @param {string} path
 * @param {Asked} [more]
 * @returns {Promise<any>} rejected by Problem, ServerLost, or the abort of the signal
 */
export const ask = async (method, path, more) => (await askWithTag(method, path, more)).content;

/**
 * The same with the ETag of the answer.
 * @typedef {{body?: object, query?: Record<string, any>, match?: string, isNew?: boolean, signal?: AbortSignal, quietly?: boolean}} Asked
 *   `match` is the ETag that a change is meant for; what `isNew` must not be there yet (412); a login that has ended is not told of `quietly`
 * @param {string} method
 * @param {string} path
 * @param {Asked} [more]
 * @returns {Promise<{content: any, etag: string}>}
 */
export async function askWithTag(method, path, { body, query, match, isNew, signal, quietly } = {}) {
  const headers = /** @type {Record<string, string>} */ ({ accept: 'application/json', [CSRF]: '' });
  if (match) headers['if-match'] = match;
  if (isNew) headers['if-none-match'] = '*';
  if (body !== undefined) headers['content-type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(path + search(query), {
      method, headers, signal, body: body && JSON.stringify(body), credentials: 'same-origin',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    tell('lost');
    throw new ServerLost(String(error), { cause: error });
  }
  tell('found');
  const content = await contentOf(answer);
  if (answer.ok) return { content, etag: answer.headers.get('etag') ?? '' };
  const problem = problemOf(answer.status, content);
  if (problem.status === 401 && !quietly) tell('signedout');
  throw problem;
}

/** @param {Record<string, any>} [query] */
function search(query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : '';
}

/** @param {Response} answer */
async function contentOf(answer) {
  const text = await answer.text();
  return (answer.headers.get('content-type') ?? '').includes('json') && text ? JSON.parse(text) : text || null;
}

/** @param {number} status @param {any} content */
function problemOf(status, content) {
  const [first] = content?.error ?? [];
  if (first) return new Problem(status, first.message.replace(/^MQWB\w+: /, ''), { reason: first.reasonCode });
  return new Problem(status, content?.detail ?? `status ${status}`, content ?? {});
}

/** The path of a resource of IBM's. @param {string} path */
export const rest = (path) => `${REST}${path}`;

/**
 * The path of a resource of a queue manager; each part is escaped.
 * @param {string} manager
 * @param {...string} parts
 */
export const ofManager = (manager, ...parts) => ['/mayfly/v1/qmgr', ...[manager, ...parts].map(encodeURIComponent)].join('/');
