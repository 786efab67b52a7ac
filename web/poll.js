// Asking again and again, while somebody looks.

// Calls work() at once and then every `seconds`, later after failures (up to 30 s); not while the
// page is hidden. failed(problem or null) hears how it goes. Returns {now(), stop()}.
export function poll(seconds, work, failed = () => {}) {
  let timer = null;
  let stopped = false;
  let running = false;
  let again = false;
  let failures = 0;

  async function round() {
    clearTimeout(timer);
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await work();
      failures = 0;
      if (!stopped) failed(null);
    } catch (problem) {
      failures += 1;
      if (!stopped) failed(problem);
    }
    running = false;
    if (stopped || document.hidden) return;
    const wait = again ? 0 : Math.min(seconds * 2 ** Math.min(failures, 5), Math.max(30, seconds));
    again = false;
    timer = setTimeout(round, 1000 * wait);
  }

  function shown() {
    if (!document.hidden) round();
  }
  document.addEventListener("visibilitychange", shown);
  round();
  return {
    now: round,
    stop() {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    },
  };
}
