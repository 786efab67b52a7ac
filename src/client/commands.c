/* What krr can do: the one list behind dispatch, help, completion and the manual's test. */
#include "client/args.h"
#include "client/choices.h"
#include "client/client.h"
#include "client/upload.h"

static const struct option_row page_options[] = {
    {"limit", 'n', "N", "at most so many (default 20)", NULL},
    {"after", 0, "ID", "those that follow this one", NULL},
    {.name = NULL},
};

static const struct option_row jobs_options[] = {
    {"status", 's', "STATUS", "those in this state", choice_status},
    {"model", 'm', "NAME", "those that train this model", NULL},
    {"order", 0, "ORDER", "newest first, or the queue alone, what is next first", choice_order},
    {"limit", 'n', "N", "at most so many (default 20)", NULL},
    {"after", 0, "ID", "those that follow this one", NULL},
    {.name = NULL},
};

static const struct option_row train_options[] = {
    UPLOAD_OPTIONS,
    {"dataset", 'd', "ID", "a data set that the server has, instead of a file", NULL},
    {"model", 'm', "NAME", "the model's name (default: the file's)", NULL},
    {"features", 0, "A,B,…", "columns to learn from (default: all but the target)", NULL},
    {"test-fraction", 0, "F", "rows kept for the test metrics (default 0.2)", NULL},
    {"kernel", 'k', "NAME", "the kernel; its parameters with --set", choice_kernel},
    {"bandwidth", 'b', "X", "a number, median (default where the kernel is named), or auto", NULL},
    {"regularization", 'r', "X", "lambda for each training row, or auto", NULL},
    {"solver", 's', "NAME", "how the system is solved", choice_solver},
    {"preconditioner", 0, "NAME", "of pcg and its relatives", choice_preconditioner},
    {"rank", 0, "N", "of the preconditioner", NULL},
    {"centers", 'c', "M", "a model on M centers, for many rows", NULL},
    {"center-method", 0, "NAME", "how centers are chosen", choice_center_method},
    {"tolerance", 0, "X", "relative residual to stop at", NULL},
    {"max-iterations", 0, "N", "at most so many", NULL},
    {"time-budget", 0, "SECONDS", "at most so long", NULL},
    {"precision", 0, "NAME", "arithmetic of the solve", choice_precision},
    {"device", 0, "NAME", "where to compute", choice_device},
    {"seed", 0, "N", "of all that is random", NULL},
    {"priority", 0, "N", "higher ones are trained first", NULL},
    {"set", 0, "FIELD=VALUE", "any field of the specification, as in stop.tolerance=1e-6", NULL},
    {"spec", 0, "FILE", "a specification (JSON) that the options above change", NULL},
    {"plan", 'p', NULL, "only say what the job would be and need", NULL},
    {"no-wait", 0, NULL, "queue the job, print its id and end", NULL},
    {.name = NULL},
};

static const struct option_row predict_options[] = {
    {"ignore-extra", 0, NULL, "pass over columns that the model does not know", NULL},
    {"decimal", 0, "SIGN", "of numbers, point or comma (then semicolons part cells)",
     choice_decimal},
    {"ignore-unknown", 0, NULL, "take words that the model does not know as none of those it knows",
     NULL},
    {"variance", 0, NULL, "how sure the predictions are, in columns behind them", NULL},
    {.name = NULL},
};

static const struct option_row export_options[] = {
    {"format", 'f', "FORMAT", "safetensors unless said", choice_model_format},
    {"output", 'o', "FILE", "where to (default: standard output)", NULL},
    {.name = NULL},
};

#define ANY_NUMBER 1000000

const struct command commands[] = {
    {"train", "[FILE]", "Sends a table, trains a model on it and shows how it goes.", train_options,
     0, 1, cmd_train},
    {"predict", "MODEL[@VERSION|:ALIAS] [FILE]",
     "Predicts the rows of a CSV table (default: standard input); a table goes to standard output.",
     predict_options, 1, 2, cmd_predict},
    {"watch", "JOB", "Shows how a job goes until it has ended.", NULL, 1, 1, cmd_watch},
    {"jobs", "", "Lists jobs, newest first.", jobs_options, 0, 0, cmd_jobs},
    {"job", "JOB", "All about a job, as JSON.", NULL, 1, 1, cmd_job},
    {"cancel", "JOB", "Ends a job without a model.", NULL, 1, 1, cmd_cancel},
    {"pause", "JOB", "Frees the job's worker; it keeps what it has done.", NULL, 1, 1, cmd_pause},
    {"resume", "JOB", "Lets a paused job go on.", NULL, 1, 1, cmd_resume},
    {"upload", "FILE", "Sends a table and prints the data set's id.", upload_options, 1, 1,
     cmd_upload},
    {"datasets", "", "Lists data sets, newest first.", page_options, 0, 0, cmd_datasets},
    {"models", "[MODEL]", "Lists models, or the versions of one.", page_options, 0, 1, cmd_models},
    {"load", "MODEL@VERSION", "Brings a version into memory.", NULL, 1, 1, cmd_load},
    {"unload", "MODEL@VERSION", "Takes a version out of memory.", NULL, 1, 1, cmd_unload},
    {"alias", "MODEL [ALIAS [VERSION]]",
     "Shows aliases, or moves one to a version (krr delete MODEL:ALIAS ends one).", NULL, 1, 3,
     cmd_alias},
    {"export", "MODEL@VERSION", "A version as a file for other programs.", export_options, 1, 1,
     cmd_export},
    {"import", "MODEL FILE", "A new version from an exported safetensors file.", NULL, 2, 2,
     cmd_import},
    {"delete", "ID…", "Deletes job_…, ds_…, MODEL@VERSION, MODEL:ALIAS, or all versions of MODEL.",
     NULL, 1, ANY_NUMBER, cmd_delete},
    {"status", "", "The server's workers.", NULL, 0, 0, cmd_status},
    {"devices", "", "What the workers compute on: memory, and kernel entries a second.", NULL, 0, 0,
     cmd_devices},
    {"health", "", "Whether the server would do new work; exit code 5 and the reason if not.", NULL,
     0, 0, cmd_health},
    {"completion", "", "Prints completion for bash: eval \"$(krr completion)\".", NULL, 0, 0,
     cmd_completion},
    {.name = NULL},
};
