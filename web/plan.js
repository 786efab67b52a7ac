// What a job is expected to take, before it runs: POST /v1/jobs?validate_only=true.
import {facts, h} from "./dom.js";
import {bytes, duration, integer, plural} from "./format.js";

const PARTS = {process: "worker", library: "buffers", data: "data", points: "points", vectors: "vectors", solver: "solver",
  preconditioner: "preconditioner", kernel_cache: "kernel values kept", other: "other"};

function share(used, limit) {
  return limit ? `${bytes(used)} of ${bytes(limit)}` : bytes(used);
}

export function planBox(plan) {
  const memory = plan.memory;
  const over = (memory.host_limit_bytes && memory.host_bytes > memory.host_limit_bytes) ||
    (memory.device_limit_bytes && memory.device_bytes > memory.device_limit_bytes);
  const largest = Object.entries(memory.parts).filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([part, size]) => `${PARTS[part] ?? part} ${bytes(size)}`).join(", ");
  const warnings = plan.warnings ?? [];
  return h("div", {class: `notice ${over || warnings.length ? "warn" : "good"}`, role: "status"},
    h("p", null, h("strong", null, over ? "It may not fit into the memory." : "The job is valid.")),
    warnings.map((w) => h("p", null, w.detail)),
    facts([["Solver", [plan.solver, plan.preconditioner, plan.rank ? `rank ${integer(plan.rank)}` : ""].filter(Boolean).join(" · ")],
      ["Kernel", plan.kernel ?? "chosen when it runs"], ["Precision", plan.precision],
      ["Rows", `${integer(plan.train_rows)} to train, ${integer(plan.test_rows)} to test`], ["Centers", integer(plan.centers)],
      ["Memory", share(memory.host_bytes, memory.host_limit_bytes)],
      ["Device memory", memory.device_bytes > 0 ? share(memory.device_bytes, memory.device_limit_bytes) : null],
      ["Time, at most", plan.seconds ? duration(plan.seconds.total) : "not measured yet"],
      ["Learned from", plan.seconds?.experience ? plural(plan.seconds.experience.jobs, "job") : null],
      ["An iteration", plan.seconds?.iteration > 0 ? duration(plan.seconds.iteration) : null]]),
    h("p", {class: "hint"}, `Most memory while ${memory.moment === "search" ? "searching" : memory.moment}: ${largest}.`,
      plan.assumed ? " Some sizes are known only when it runs." : ""));
}
