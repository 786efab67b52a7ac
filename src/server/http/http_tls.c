#include "server/http/http_tls.h"

#include <gnutls/gnutls.h>
#include <stdint.h>
#include <string.h>

static gnutls_datum_t datum_of(const char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)(uintptr_t)text, /* only read */
                            .size = (unsigned int)strlen(text)};
}

int http_tls_check(const char *certificate, const char *key, struct err *err)
{
    const gnutls_datum_t c = datum_of(certificate), k = datum_of(key);
    gnutls_certificate_credentials_t both = NULL;
    if (gnutls_certificate_allocate_credentials(&both) != GNUTLS_E_SUCCESS) {
        return err_no_memory(err);
    }
    const int r = gnutls_certificate_set_x509_key_mem(both, &c, &k, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(both);
    return r >= 0 ? 0
                  : err_set(err, ERR_INVALID,
                            "The TLS certificate and its key cannot be used together; "
                            "both are PEM files, and the key has no password.");
}

bool http_tls_send(void *session, const void *data, size_t size)
{
    return gnutls_record_send(session, data, size) == (ssize_t)size;
}
