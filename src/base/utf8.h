/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The number of bytes (1 to 4) of the character at s, or 0 where s[0..len) starts no whole,
 * well-formed character (also for len = 0). */
size_t utf8_step(const char *s, size_t len);

/* Writes a character; returns its number of bytes (1 to 4), or 0 where c is none. */
size_t utf8_put(uint32_t c, char ret[4]);

/* The bytes of the byte order marks with which s[0..len) begins. One is a program's habit, and more
 * of them that of several one after another; none belongs to the text. */
size_t utf8_marks(const char *s, size_t len);

/* The length of the longest prefix of s[0..len) that has at most max bytes and splits no
 * character. Bytes that are not UTF-8 are kept as they are. */
size_t utf8_fit(const char *s, size_t len, size_t max);

/* Takes out of s what is left of characters of which some bytes are missing, as "%.64s" and a full
 * buffer cut them. Bytes that begin no character are kept as they are. */
void utf8_mend(char *s);
