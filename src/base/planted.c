#include "base/planted.h"

#if TRAM_PLANTED
uint64_t planted_mask;
#endif
