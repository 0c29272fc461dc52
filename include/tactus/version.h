/* The version of the broker, its tools and the runner: one number for all. */
#ifndef TACTUS_VERSION_H
#define TACTUS_VERSION_H

#define TACTUS_VERSION "0.1.0"

#endif
