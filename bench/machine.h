/* What a measurement must say about the machine it was made on. */
#pragma once

#include <stdint.h>

#include "base/json.h"

/* Sets "cpu" (the model's name or null), "cores" (that this process may use), "load_average" (of
 * the last minute, or null) and "date" (UTC). */
void machine_to_json(struct json *obj);

/* Memory of this process that lies in RAM: now, and the most since machine_reset_peak. -1 where the
 * system does not tell. */
int64_t machine_resident_bytes(void);
int64_t machine_peak_bytes(void);
/* < 0 where the system cannot; then machine_peak_bytes is of the whole life. */
int machine_reset_peak(void);

/* Seconds of processor time of this process, all threads together. */
double machine_cpu_s(void);
