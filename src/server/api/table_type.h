/*
 * What the Content-Type of a table says beside its format: the same of data sets that are uploaded
 * and of tables to predict. -ERR_UNSUPPORTED at PROBLEM_CONTENT_TYPE where it says what is not
 * read.
 */
#pragma once

#include "base/err.h"
#include "ingest/ingest.h"

/* Tables of text are read as UTF-8, of which ASCII is a part; where no charset is named as well. */
int table_type_charset(const char *content_type, struct err *err);
/* RFC 4180's "header" of text/csv; where it is not given, *ret stays what it is. */
int table_type_header(const char *content_type, enum ingest_header *ret, struct err *err);
