// The fields of a job that belong to no method, in the form of the parameter tables. Names, ranges
// and defaults are those of JobSpec in /openapi.yaml.
export const DATA = [
  {key: "model", type: "string", required: true, example: "prices", list: "model-names",
    help: "A new name, or one that gets a new version. Letters, digits, dot, dash, underscore."},
  {key: "dataset", label: "data set", type: "string", choices: [""], default: "", required: true, help: ""},
  {key: "target", type: "string", choices: [""], default: "", help: "What to predict."},
  {key: "task", type: "string", choices: ["auto", "regression", "classification"], default: "auto", help: ""},
  {key: "features", type: "words", long: true, example: "all others",
    help: "Columns to learn from, one a line or with commas. Empty: all but the target."},
];

export const TEST = [
  {key: "fraction", label: "test rows, as a fraction", type: "number", minimum: 0, maximum: 0.99, default: 0.2,
    help: "Drawn at random by the seed, kept out of the training."},
  {key: "dataset", label: "or a data set of test rows", type: "string", choices: [""], default: "", help: ""},
  {key: "mask", label: "or a column that marks them", type: "string", help: "A column that is not 0 in test rows."},
];

export const SCALES = [
  {key: "features", label: "standardize features", type: "boolean", default: true, help: "Mean 0, deviation 1."},
  {key: "target", label: "standardize the target", type: "boolean", default: true, help: ""},
];

export const BANDWIDTH = {key: "bandwidth", type: "bandwidth", exclusive_minimum: 0, example: "median, or auto with the kernel", words: true,
  help: "A number, median, auto (the median, four times that, or one learned for each feature), or one number a feature; of standardized features."};

export const REGULARIZATION = {key: "regularization", type: "number", minimum: 0, maximum: 1e100, auto: true,
  example: "1e-6, or more with the kernel auto", help: "Lambda per training row: the system is (K + n·λ·I) α = y. Auto searches."};

export const STOP = [
  {key: "tolerance", type: "number", exclusive_minimum: 0, maximum: 1, default: 1e-6,
    help: "Of the relative residual."},
  {key: "max_iterations", type: "integer", minimum: 1, example: "by solver",
    help: "1,000, or 200,000 for solvers that go by blocks of rows, unless given."},
  {key: "time_budget_s", label: "time budget, seconds", type: "number", exclusive_minimum: 0, example: "none",
    help: "Then the job ends with what it has."},
];

export const COUNT = {key: "count", label: "centers", type: "integer", minimum: 1, maximum: 1e9, auto: true,
  default: "auto", help: "How many; auto: about 10 √n."};

export const SEARCH = [
  {key: "regularization", label: "regularizations to try", type: "numbers", exclusive_minimum: 0, example: "1e-8 1e-6 1e-4",
    help: "With blanks between them."},
  {key: "bandwidth", label: "bandwidths to try", type: "numbers", exclusive_minimum: 0, example: "half, once, twice the median",
    help: "Around the median that a first job told among its events; it grows with the columns."},
  {key: "metric", type: "string", choices: ["auto", "smape", "rmse", "mae", "r2", "accuracy", "auc", "evidence"], default: "auto",
    help: "The evidence is for kmcg, inducing and kmcg_restricted."},
  {key: "folds", type: "integer", minimum: 2, maximum: 50, example: "leave one out", help: ""},
  {key: "max_rows", label: "rows at most", type: "integer", minimum: 100, maximum: 12000, default: 4000, help: ""},
];

export const MORE = [
  {key: "precision", type: "string", choices: ["auto", "float64", "float32", "mixed"], default: "auto", help: "Of the solve."},
  {key: "device", type: "string", default: "auto", help: "auto, cpu, cuda, cuda:1, or cuda:0,1 for both together."},
  {key: "kernel_cache_bytes", type: "integer", minimum: 0, auto: true, default: "auto", help: "Kernel values kept in memory."},
  {key: "seed", type: "integer", minimum: 0, default: 0, help: ""},
  {key: "priority", type: "integer", minimum: -100, maximum: 100, default: 0, help: "Larger ones start first."},
  {key: "max_attempts", type: "integer", minimum: 1, maximum: 10, default: 3, help: "After losses of a worker, where it got no further."},
  {key: "warm_start", label: "begin with the model", type: "model", list: "model-names", example: "none",
    help: "Its coefficients are where the iteration begins; model@version for another than the newest."},
  {key: "metadata", type: "pairs", example: "team=a", help: "name=value, one a line, to find the job by."},
];

export const PROMOTE = [
  {key: "alias", type: "string", example: "none",
    help: "The name that the new version gets, as prod, if it is good enough."},
  {key: "if", label: "if", type: "conditions", example: "smape < 0.02\nr2 >= current",
    help: "Metrics of the test rows, one condition a line; current is that of the version that has the alias. Empty: in any case."},
];

export const WEBHOOK = [
  {key: "url", label: "tell this address", type: "string", example: "nobody",
    help: "An https address that hears of the end of the job, where the server sends webhooks."},
  {key: "events", label: "of jobs that have", type: "words", long: true, example: "succeeded, failed, cancelled", default: ["succeeded", "failed", "cancelled"],
    help: "Which ends it is told of."},
];
