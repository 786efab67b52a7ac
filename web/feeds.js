// The event logs of jobs, shared by whatever shows them. Browsers open six connections to a server
// at most, for all tabs together: a few jobs are streamed, the others are asked for every few
// seconds, and nothing is held while the page is hidden. Events have ids, so none is lost or seen
// twice on the way from one to the other.
import {get, query, segment} from "./api.js";
import {Series} from "./series.js";
import {listen} from "./sse.js";

const STREAMS = 3;
const POLL_S = 3;
const RETRY_S = 2;
const KEPT_MESSAGES = 500;
const FINAL = ["succeeded", "failed", "cancelled"];

const feeds = new Map();

class Feed {
  constructor(job) {
    this.path = `/v1/jobs/${segment(job)}/events`;
    this.series = new Series();
    this.log = []; // the events that are no metrics, oldest first
    this.lastId = 0;
    this.ended = false;
    this.listeners = new Set();
    this.timer = null;
    this.abort = null; // of the stream that runs
    this.asking = false;
  }

  take(event) {
    if (event.id <= this.lastId) return;
    this.lastId = event.id;
    if (event.type === "metrics") {
      if (event.data) this.series.add(event.data);
    } else {
      this.log.push(event);
      if (this.log.length > KEPT_MESSAGES) this.log.shift();
    }
    if (event.type === "status") this.ended = FINAL.includes(event.data?.status);
    this.tell();
  }

  // At most one call a frame, however many events come at once.
  tell() {
    if (this.told) return;
    this.told = true;
    setTimeout(() => {
      this.told = false;
      this.listeners.forEach((listener) => listener(this));
    }, 60);
  }

  async stream() {
    const abort = this.abort = new AbortController();
    try {
      await listen(this.path, this.lastId, abort.signal, (event) => this.take(event));
    } catch {
      // Ended by us, or the connection broke: schedule() decides what next.
    }
    if (this.abort === abort) this.abort = null;
    if (!abort.signal.aborted) this.later(RETRY_S);
  }

  async ask() {
    this.asking = true;
    try {
      let page;
      do {
        page = await get(query(this.path, {after: this.lastId, limit: 1000}));
        page.data.forEach((event) => this.take(event));
      } while (page.has_more && this.listeners.size > 0);
    } catch (problem) {
      if (problem.status === 404) this.ended = true;
    }
    this.asking = false;
    this.later(POLL_S);
  }

  later(seconds) {
    clearTimeout(this.timer);
    if (!this.ended) this.timer = setTimeout(() => { this.timer = null; schedule(); }, 1000 * seconds);
    else this.timer = null;
    schedule();
  }

  get idle() {
    return !this.abort && !this.asking && !this.timer;
  }

  halt() {
    clearTimeout(this.timer);
    this.timer = null;
    this.abort?.abort();
    this.abort = null;
  }
}

function schedule() {
  const watched = [...feeds.values()].filter((feed) => feed.listeners.size > 0 && !feed.ended);
  let streams = watched.filter((feed) => feed.abort).length;
  for (const feed of watched) {
    if (document.hidden || !feed.idle) continue;
    if (streams < STREAMS) {
      streams += 1;
      feed.stream();
    } else {
      feed.ask();
    }
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) feeds.forEach((feed) => feed.halt());
  else schedule();
});

// Calls listener(feed) whenever there is something new; returns the feed, and stops with the
// function that stop(feed) gives.
export function watch(job, listener) {
  let feed = feeds.get(job);
  if (!feed) feeds.set(job, feed = new Feed(job));
  feed.listeners.add(listener);
  if (feed.lastId > 0) feed.tell();
  schedule();
  return {
    feed,
    stop() {
      feed.listeners.delete(listener);
      if (feed.listeners.size > 0) return;
      feed.halt();
      if (!feed.ended) feeds.delete(job);
      schedule();
    },
  };
}
