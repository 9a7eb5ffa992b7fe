"""Imported first by the fork server of audits: from here on it collects no garbage.

The imports that follow make hundreds of thousands of objects and hardly any garbage; looking for it takes a
fifth of their time. A process that is forked sets all of them aside, and collects its own.
"""

import gc

gc.disable()
