/* What `tram key list` shows: the keys of a cluster file, which of their secrets are here, and what is wrong with them. */
#ifndef CLI_KEY_LIST_H
#define CLI_KEY_LIST_H

#include "conf/cluster.h"

enum { KEY_FINGERPRINT_CHARS = 12 }; /* of the base64: enough to tell keys apart */

struct key_fingerprint {
    char s[KEY_FINGERPRINT_CHARS + 1];
};
struct key_fingerprint key_fingerprint(const unsigned char key[CLUSTER_PUBLIC_BYTES]);

/* Does the key begin with that, with or without `ed25519:`? */
bool key_begins(const unsigned char key[CLUSTER_PUBLIC_BYTES], const char *fingerprint);

/* Prints it. CMD_DONE, or CMD_FAILED if there is something to warn of. */
int key_list(const struct cluster *, const char *file, bool json);

#endif
