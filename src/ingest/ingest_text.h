/*
 * Text of a client's file in error sentences and in names: shown short and harmless, accepted only
 * when it survives a C string and JSON.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* How a client leaves a column out, for sentences; krr and others have other words for it. */
#define INGEST_LEAVE_OUT "ignore=COLUMN (krr: --ignore COLUMN) leaves the column out"

/* Bytes a name or class label may have. */
#define INGEST_NAME_MAX 256

/* Room for the text of ingest_show, the quotes and the NUL included. */
#define INGEST_SHOW_SIZE 80

/*
 * "text" in double quotes, at most some 60 bytes, shortened with "…"; control characters, quotes,
 * backslashes and bytes that are not UTF-8 appear as \xNN. Returns ret.
 */
const char *ingest_show(const char *text, size_t len, char ret[INGEST_SHOW_SIZE]);

/* Why text cannot be a name or label ("is empty", "is longer than 256 bytes", …), or NULL. */
const char *ingest_name_fault(const char *text, size_t len);

/* Room for the text of ingest_encoding_hint. */
#define INGEST_ENCODING_SIZE 240
/* Behind "is not UTF-8": which byte is not, and how to have a table in UTF-8; "" where all are. */
const char *ingest_encoding_hint(const char *text, size_t len, char ret[INGEST_ENCODING_SIZE]);

/* Removes blanks, tabs and line ends around text[0..*len): returns the new start. */
const char *ingest_trim(const char *text, size_t *len);

/* Refuses text that begins with the byte order mark of UTF-16, and, in a CSV, with a line "sep=;",
 * which tells Excel what parts the cells. */
int ingest_refuse_utf16(const char *text, size_t len, struct err *err);
int ingest_refuse_separator(const char *text, size_t len, struct err *err);

/*
 * What parts the cells of a CSV, by a line of its first row: a comma where one stands outside
 * quotes, unless they part none (commas), else a semicolon, else a tab; 0: none does. The line ends
 * at a line end outside quotes, or at any behind a semicolon or tab, so that a table read line by
 * line has the same. *quoted: whether it begins within quotes; where none was found, whether it
 * ends so.
 */
char ingest_delimiter(const char *line, size_t len, bool commas, bool *quoted);
