#include "base/planted.h"

#if TRAM_PLANTED
enum planted planted_bug;
#endif
