"""What runs inside an environment: the first process, its wardens and what they need.

These modules are sent to a bare interpreter that starts in a few milliseconds, so they import
nothing but built-in and extension modules: no `os`, no `subprocess`, no `typing`, no `enum`. They
hold no secrets and trust nothing but the socket to the host.

The *stem* is outside: all wardens of walled environments are forked from it. Without namespaces the
*first* process of an environment makes its wardens. A *warden* runs one command at a time, is the
subreaper of everything the command starts, and can therefore end all of it and nothing else.
"""
