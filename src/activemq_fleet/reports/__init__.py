"""Draw the reports of audits and drills, and the status of a fleet, as HTML pages without external resources.

The pages are light, dark or on paper. All text is escaped, since log lines and host names may be hostile.
"""
