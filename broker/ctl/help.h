/* The help of brokerctl, one text a command. */
#ifndef TACTUS_CTL_HELP_H
#define TACTUS_CTL_HELP_H

extern const char ctl_help_program[];
extern const char ctl_help_chat[];
extern const char ctl_help_call[];
extern const char ctl_help_emit[];
extern const char ctl_help_info[];
extern const char ctl_help_status[];
extern const char ctl_help_grants[];
extern const char ctl_help_usage[];
extern const char ctl_help_reload[];
extern const char ctl_help_drain[];

#endif
