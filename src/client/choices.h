/*
 * The values that options may have, as help and completion tell them: of methods, those of the
 * catalog that the server goes by. By place; NULL after the last.
 */
#pragma once

const char *choice_kernel(int place);
const char *choice_solver(int place);
const char *choice_preconditioner(int place);
const char *choice_center_method(int place);
const char *choice_precision(int place);
const char *choice_task(int place);
const char *choice_device(int place);
const char *choice_status(int place); /* of a job */
const char *choice_order(int place);  /* of jobs in a list */
const char *choice_table_format(int place);
const char *choice_missing(int place); /* values of a table */
const char *choice_decimal(int place); /* signs of its numbers */
const char *choice_model_format(int place);
