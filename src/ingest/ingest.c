#include "ingest/ingest.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingest/ingest_formats.h"
#include "ingest/ingest_gzip.h"
#include "ingest/ingest_table.h"
#include "ingest/ingest_temp.h"
#include "ingest/ingest_text.h"

#define FORMAT_COUNT 4

struct format_def {
    const char *name;
    const char *content_type;
    int (*read)(const struct ingest_input *in, struct ingest_table *t, struct err *err);
};

static const struct format_def formats[FORMAT_COUNT];

int ingest_format_parse(const char *name, enum ingest_format *ret, struct err *err)
{
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            *ret = (enum ingest_format)i;
            return 0;
        }
    }
    char show[INGEST_SHOW_SIZE];
    return err_at(err, ERR_INVALID, "#/format",
                  "%s is no format; csv, libsvm, npy and npz are supported.",
                  ingest_show(name, strlen(name), show));
}

const char *ingest_format_name(enum ingest_format f)
{
    return formats[f].name;
}

static const char *const headers[] = {
    [INGEST_HEADER_AUTO] = "auto",
    [INGEST_HEADER_PRESENT] = "present",
    [INGEST_HEADER_ABSENT] = "absent",
};

int ingest_header_parse(const char *name, enum ingest_header *ret, struct err *err)
{
    for (int i = 0; i < (int)(sizeof(headers) / sizeof(*headers)); i++) {
        if (strcmp(headers[i], name) == 0) {
            *ret = (enum ingest_header)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "The header must be auto, present or absent.");
}

const char *ingest_header_name(enum ingest_header h)
{
    return headers[h];
}

int ingest_format_from_type(const char *content_type, enum ingest_format *ret, struct err *err)
{
    size_t len = strcspn(content_type, ";");
    const char *type = ingest_trim(content_type, &len);
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const char *known = formats[i].content_type;
        if (strlen(known) == len && strncasecmp(known, type, len) == 0) {
            *ret = (enum ingest_format)i;
            return 0;
        }
    }
    char show[INGEST_SHOW_SIZE];
    return err_set(err, ERR_UNSUPPORTED,
                   "The Content-Type %s is not supported; text/csv, text/x-libsvm, "
                   "application/x-npy and application/x-npz are.",
                   ingest_show(type, len, show));
}

/* Opens a file that is not empty. */
static int open_input(const char *path, int *ret, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, "open the upload");
    }
    struct stat st;
    int r = 0;
    if (fstat(fd, &st) != 0) {
        r = err_errno(err, "open the upload");
    } else if (st.st_size == 0) {
        r = err_at(err, ERR_INVALID, "#", "The file is empty.");
    }
    if (r < 0) {
        close(fd);
        return r;
    }
    *ret = fd;
    return 0;
}

static int refuse_packed(int fd, struct err *err)
{
    unsigned char magic[2] = {0};
    if (pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && magic[0] == 0x1f &&
        magic[1] == 0x8b) {
        return err_set(err, ERR_INVALID,
                       "The contents are a gzip stream; say so with Content-Encoding: gzip.");
    }
    return 0;
}

static int refuse_utf16(int fd, enum ingest_format format, struct err *err)
{
    char mark[2] = {0};
    const bool text = format == INGEST_CSV || format == INGEST_LIBSVM;
    return text && pread(fd, mark, sizeof(mark), 0) == sizeof(mark)
               ? ingest_refuse_utf16(mark, sizeof(mark), err)
               : 0;
}

/* Reads the plain file at path into a data set. */
static int read_plain(const char *path, const char *output_path,
                      const struct ingest_options *options, struct dataset_info *ret,
                      struct err *err)
{
    struct ingest_input in = {.path = path, .fd = -1};
    int r = open_input(path, &in.fd, err);
    if (r < 0) {
        return r;
    }
    struct ingest_table t;
    ingest_table_init(&t, options, output_path);
    r = refuse_packed(in.fd, err);
    r = r < 0 ? r : refuse_utf16(in.fd, options->format, err);
    r = r < 0 ? r : formats[options->format].read(&in, &t, err);
    close(in.fd);
    if (r == 0) {
        r = ingest_table_finish(&t, ret, err);
    }
    ingest_table_deinit(&t);
    return r;
}

struct deflate_limit ingest_unpack_limit(int64_t packed_bytes, const struct ingest_options *options)
{
    int64_t limit;
    if (__builtin_mul_overflow(packed_bytes, INGEST_EXPANSION_MAX, &limit)) {
        limit = INT64_MAX;
    }
    limit = limit > INGEST_EXPANSION_FREE ? limit : INGEST_EXPANSION_FREE;
    const struct deflate_limit grown = {limit, "far beyond what tables unpack to"};
    const struct deflate_limit set = {options->max_unpacked_bytes, "--max-unpacked-bytes"};
    return grown.bytes < set.bytes ? grown : set;
}

struct deflate_limit ingest_unpack_limit_of(int fd, const struct ingest_options *options)
{
    struct stat st;
    return ingest_unpack_limit(fstat(fd, &st) == 0 ? (int64_t)st.st_size : 0, options);
}

int ingest_file(const char *input_path, const char *output_path,
                const struct ingest_options *options, struct dataset_info *ret, struct err *err)
{
    if (!options->gzip) {
        return read_plain(input_path, output_path, options, ret, err);
    }
    int fd = -1;
    int r = open_input(input_path, &fd, err);
    if (r < 0) {
        return r;
    }
    cleanup_temp struct ingest_temp unpacked = INGEST_TEMP_INIT;
    r = ingest_temp_open(&unpacked, output_path, options, err);
    if (r == 0) {
        r = ingest_gunzip(fd, &unpacked, ingest_unpack_limit_of(fd, options), err);
    }
    close(fd);
    return r < 0 ? r : read_plain(unpacked.path, output_path, options, ret, err);
}

static const struct format_def formats[FORMAT_COUNT] = {
    [INGEST_CSV] = {.name = "csv", .content_type = "text/csv", .read = ingest_read_csv},
    [INGEST_LIBSVM] = {.name = "libsvm",
                       .content_type = "text/x-libsvm",
                       .read = ingest_read_libsvm},
    [INGEST_NPY] = {.name = "npy", .content_type = "application/x-npy", .read = ingest_read_npy},
    [INGEST_NPZ] = {.name = "npz", .content_type = "application/x-npz", .read = ingest_read_npz},
};
