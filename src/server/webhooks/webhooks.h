/*
 * Webhooks: from the store's outbox to their receivers, 16 at a time and 2 to one receiver, so that
 * one that is slow or dead holds up no other. What is not taken with 2xx is tried again with
 * growing waits; 410, or the end of --webhook-give-up-s, ends it, with an event in the job's log. A
 * message may arrive twice, under the same webhook-id.
 */
#pragma once

#include "base/err.h"
#include "wire/webhook.h"

struct app;
struct webhooks;

/* *ret is NULL where --webhooks is not given: what is pending then stays so. */
int webhooks_new(struct app *app, struct webhooks **ret, struct err *err);
/* The server will stop: nothing more is begun, and what is under way has little time left. */
void webhooks_drain(struct webhooks *w);
/* Nothing more is begun. Freed once nothing is under way (app->offloaded); NULL is fine. */
void webhooks_stop(struct webhooks *w);
struct webhooks *webhooks_free(struct webhooks *w);

/* Whether such a webhook would be sent: -ERR_INVALID at "#/webhook…". Names are not looked up. */
int webhooks_check(const struct app *app, const struct webhook_spec *spec, struct err *err);
