// The progress of a job as curves of bounded length.

const CAPACITY = 2000;

export class Series {
  constructor(capacity = CAPACITY) {
    this.capacity = capacity;
    this.points = []; // progress objects, oldest first
    this.stride = 1; // one of so many is kept
    this.count = 0;
    this.last = null;
  }

  add(progress) {
    this.last = progress;
    if (this.count++ % this.stride !== 0) return;
    this.points.push(progress);
    if (this.points.length >= this.capacity) {
      this.points = this.points.filter((_, index) => index % 2 === 0);
      this.stride *= 2;
    }
  }

  // [{x, y}] of one quantity over "iteration" or "elapsed_s"; the newest value is always the last.
  // On a logarithmic axis only positive values have a place.
  curve(quantity, over, logarithmic) {
    const points = [];
    const take = (p) => {
      const x = p[over];
      const y = p[quantity];
      if (y == null || x == null || (logarithmic && !(y > 0))) return;
      points.push({x, y});
    };
    this.points.forEach(take);
    if (this.last && this.points.at(-1) !== this.last) take(this.last);
    // A job that began again after a loss goes back; a curve goes on.
    points.sort((a, b) => a.x - b.x);
    return points.filter((point, i) => point.x !== points[i + 1]?.x);
  }
}
