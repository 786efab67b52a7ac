"""Three synthetic problems, each built to break a way of choosing pivots.

Each is a function (n, seed) -> X [n, d], y [n] in float64, meant for the kernel exp(-|x-z|^2 / 18).
Features come out with mean 0 and deviation 1, so standardising them changes nothing. What makes r
pivots bad (Diaz and others, arXiv:2304.12465, section 3.1):

- uniform pivots miss a region with few rows, however much of the spectrum lies there: `far_region`;
- greedy pivots go to the rows that are worst approximated one by one, that is to isolated ones, and
  leave out crowded regions whose errors add up: `outliers`, with 1,200 isolated rows in 10,000;
- `outliers_and_far_region` has both, and 600 isolated rows in 10,000.
"""
import numpy


def _far_region(rng, rows, d):
    """Few rows in a cloud of their own, 5 of its dimensions wide enough that no two rows are alike."""
    center = rng.normal(size=d)
    X = numpy.tile(8.0 * center / numpy.linalg.norm(center), (rows, 1))
    X[:, :5] += 1.3 * rng.normal(size=(rows, 5))
    return X


def _flat_cloud(rng, rows, d):
    """Most rows, in a cloud of two dimensions: a few dozen pivots anywhere in it describe it."""
    X = 0.01 * rng.normal(size=(rows, d))
    X[:, :2] += 0.5 * rng.normal(size=(rows, 2))
    return X


def _clusters(rng, rows, d):
    """Most rows, in 60 tight clusters that see each other; sizes differ up to a factor of 4."""
    size = rng.uniform(1.0, 4.0, 60)
    which = rng.choice(60, rows, p=size / size.sum())
    centers = numpy.zeros((60, d))
    centers[:, :6] = 2.5 * rng.normal(size=(60, 6))
    X = centers[which]
    X[:, :6] += 0.25 * rng.normal(size=(rows, 6))
    return X


def _outliers(rng, rows, d):
    """Rows so far from all others that they see none: each is an eigenvector of K by itself."""
    return 7.0 * rng.normal(size=(rows, d))


def _finish(rng, parts, amplitudes):
    """Rows of all parts in random order, features of mean 0 and deviation 1, and a target that is a
    sum of waves times the amplitude of the row's part, with a little noise."""
    X = numpy.concatenate(parts)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    waves = rng.normal(size=(X.shape[1], 30)) / 3.0
    y = numpy.cos(X @ waves + rng.uniform(0.0, 2.0 * numpy.pi, 30)).sum(axis=1)
    y *= numpy.repeat(amplitudes, [len(part) for part in parts])
    y += 0.01 * rng.normal(size=len(y))
    order = rng.permutation(len(X))
    return X[order], y[order]


def far_region(n, seed=0, d=10):
    rng = numpy.random.default_rng([seed, 1])
    few = n // 20
    return _finish(rng, [_flat_cloud(rng, n - few, d), _far_region(rng, few, d)], [1.0, 4.0])


def outliers(n, seed=0, d=40):
    rng = numpy.random.default_rng([seed, 2])
    few = (12 * n) // 100
    return _finish(rng, [_clusters(rng, n - few, d), _outliers(rng, few, d)], [1.0, 1.0])


def outliers_and_far_region(n, seed=0, d=40):
    rng = numpy.random.default_rng([seed, 3])
    isolated, few = (6 * n) // 100, n // 20
    parts = [4.0 * _flat_cloud(rng, n - isolated - few, d), 3.0 * _far_region(rng, few, d), _outliers(rng, isolated, d)]
    return _finish(rng, parts, [1.0, 4.0, 1.0])


PROBLEMS = {"far_region": far_region, "outliers": outliers, "outliers_and_far_region": outliers_and_far_region}
